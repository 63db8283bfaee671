"""Any sequence of records, days, restarts and new versions keeps every bound."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from client_sdk.recording.ledger import committed
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.sqlite import MemoryState
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metrics_file import MetricsFile
from tests.metric_texts import declaration

CAP, PER_WEEK, BUDGET = 3, 2, 22.0
SECRET = bytes(range(32))


def version(prob_f: float) -> MetricsFile:
    """A version of the app: `page` under some parameters, and a boolean alongside it."""
    coins = {"prob_f": prob_f, "prob_p": 0.5, "prob_q": 0.75}
    page = declaration(
        "page", "string", num_bits=16, num_hashes=2, num_cohorts=2, **coins,
        max_memoized_values=CAP, fallback="other", period="week", max_reports_per_period=PER_WEEK,
    )  # fmt: skip
    return parse_metrics(f"budget = {BUDGET}\n{page}{declaration('flag', 'boolean', **coins)}")


VERSIONS = [version(0.5), version(0.6), version(0.4)]  # the last is weaker than the first
RECORD = st.tuples(
    st.just("record"), st.sampled_from(["page", "flag"]), st.integers(0, 5), st.integers(0, 30)
)
OPERATIONS = st.lists(
    st.one_of(RECORD, RECORD, RECORD, st.tuples(st.just("version"), st.integers(0, 2))), max_size=40
)


def run(state: MemoryState, operations: list[tuple[object, ...]]) -> None:
    """Live a device's life; `version` is an update of the app and a restart."""
    recorder = Recorder(VERSIONS[0].metrics, state, budget=BUDGET)
    recorder.record("page", "first", 0.0)  # so that the first promise is the first version's
    recorder.record("flag", True, 0.0)
    for kind, *given_ in operations:
        if kind == "version":
            (number,) = given_
            recorder = Recorder(VERSIONS[int(str(number))].metrics, state, budget=BUDGET)
            continue
        name, value, day = given_
        answer = f"value {value}" if name == "page" else value == 1
        recorder.record(str(name), answer, int(str(day)) * 86_400.0)


def check_bounds(state: MemoryState) -> None:
    total = 0.0
    for line in state.lines():
        entries = state.entries(line.name)
        assert len(entries) <= (CAP if line.name == "page" else 2)
        total += committed(line, entries)
    assert total <= BUDGET * 1.000001


@settings(max_examples=60, deadline=None)
@given(OPERATIONS)
def test_every_life_keeps_the_bounds(operations: list[tuple[object, ...]]) -> None:
    memory = MemoryState(SECRET)
    run(memory, operations)
    check_bounds(memory)
    weeks = Counter((r.metric, (r.day.toordinal() - 1) // 7) for r in memory.take_reports())
    assert all(number <= PER_WEEK for (name, _), number in weeks.items() if name == "page")
