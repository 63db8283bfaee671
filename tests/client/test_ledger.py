"""What a device may reveal is decided before anything is sent. Both stores, the same answers."""

import math
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client_sdk.errors import StateChangedError
from client_sdk.randomization.key_derivation import new_secret, system_randomness
from client_sdk.recording.bounds import PrivacyLevel
from client_sdk.recording.ledger import Promise, committed, spent
from client_sdk.recording.recorder import Recorder
from client_sdk.recording.withdrawal import wipe_state
from client_sdk.storage.interface import Limits
from client_sdk.storage.sqlite import MemoryState, SqliteState
from rappor_core.errors import ParameterError
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metrics_file import MetricsFile
from tests.metric_texts import declaration

NOON = 1_795_262_400.0  # 2026-11-21, 12:00 UTC
DAY = 86_400.0
MakeState = Callable[[], MemoryState]

STRING = {"num_bits": 64, "num_hashes": 2, "num_cohorts": 1, "fallback": "other"}


def text_of(name: str = "m", kind: str = "string", f: float = 0.5, more: str = "") -> str:
    keys = STRING if kind == "string" else {}
    return declaration(name, kind, prob_f=f, prob_p=0.5, prob_q=0.75, **keys) + more + "\n"


def declare(**changes: Any) -> MetricsFile:
    return parse_metrics(text_of(**changes))


@pytest.fixture
def make_state() -> MakeState:
    return lambda: MemoryState(new_secret(system_randomness))


@pytest.mark.parametrize("most", [1, 99, 130, 777])
def test_two_processes_never_pass_their_one_limit(tmp_path, most) -> None:
    more = f"max_memoized_values = 3\nmax_reports_per_period = {most}"
    states = [SqliteState(tmp_path / "s", threading.RLock()) for _ in range(2)]
    states[0].set_secret(bytes(32))
    recorders = [Recorder(declare(more=more).metrics, state) for state in states]
    outcomes = [recorders[i % 3 == 0].record("m", "a", NOON) for i in range(most + 60)]
    assert outcomes.count("queued") == most
    assert set(outcomes[-20:]) == {"full"}
    assert states[0].rows("SELECT count(*) FROM queue") == [(most,)]
    for state in states:
        state.close()


def test_closing_gives_back_what_was_counted_in_advance(tmp_path) -> None:
    more = "max_memoized_values = 3\nmax_reports_per_period = 500"
    for _ in range(5):
        state = SqliteState(tmp_path / "s", threading.RLock())
        if state.identity().secret is None:
            state.set_secret(bytes(32))
        recorder = Recorder(declare(more=more).metrics, state)
        assert recorder.record("m", "a", NOON) == "queued"
        state.close()
    state = SqliteState(tmp_path / "s", threading.RLock())
    assert state.rows("SELECT reports FROM periods") == [(5,)]
    state.close()


def digests(state: SqliteState, line: str = "m") -> set[bytes]:
    return {entry.digest for entry in state.entries(line)}


def test_past_the_cap_the_fallback_is_sent(make_state) -> None:
    metrics = declare(more="max_memoized_values = 3\nmax_reports_per_period = 100").metrics
    state = make_state()
    recorder = Recorder(metrics, state)

    outcomes = [recorder.record("m", value, NOON) for value in ("a", "b", "c", "d", "a", "c")]

    over = "queued_fallback"
    assert outcomes == ["queued", "queued", over, over, "queued", over]
    device = recorder.device("m")
    expected = {device.digest(device.value_bits(value)) for value in ("other", "a", "b")}
    assert digests(state) == expected
    reports = {entry.digest: entry.reports for entry in state.entries("m")}
    assert reports[device.digest(device.value_bits("other"))] == 3


def test_a_used_periodic_metric_sends_every_period(make_state) -> None:
    more = "max_memoized_values = 3\nno_data = 'none'"
    metrics = declare(more=more).metrics
    state = make_state()
    recorder = Recorder(metrics, state)
    assert recorder.fill_periods(NOON) == 0  # never used on this device
    assert recorder.record("m", "a", NOON) == "queued"
    assert recorder.fill_periods(NOON) == 0
    assert recorder.fill_periods(NOON + 3 * DAY) == 2
    assert recorder.fill_periods(NOON + 3 * DAY) == 0
    assert Recorder(metrics, state).fill_periods(NOON + 20 * DAY) == 7
    assert recorder.record("m", "b", NOON + 21 * DAY) == "queued_fallback"
    device = recorder.device("m")
    reports = {entry.digest: entry.reports for entry in state.entries("m")}
    assert reports[device.digest(device.value_bits("none"))] == 9


def test_a_limit_for_life_holds(make_state) -> None:
    metrics = declare(f=0.0, more="max_memoized_values = 9\nmax_reports = 2").metrics
    state = make_state()
    recorder = Recorder(metrics, state)
    outcomes = [recorder.record("m", "a", NOON + day * DAY) for day in range(4)]
    assert outcomes == ["queued", "queued", "full", "full"]
    (line,) = state.lines()
    epsilon_one = metrics["m"].params.epsilon_one
    assert committed(line, state.entries("m")) == pytest.approx(2 * epsilon_one)
    assert spent(line, state.entries("m")) == pytest.approx(2 * epsilon_one)


def test_new_parameters_are_charged_to_the_same_line(make_state) -> None:
    state = make_state()
    cap = "max_memoized_values = 3\nmax_reports_per_period = 9"
    assert Recorder(declare(more=cap).metrics, state).record("m", "a", NOON) == "queued"
    stricter = declare(f=0.6, more=cap).metrics
    # the fallback and "a" took two places; the new parameters' own fallback takes the third
    assert Recorder(stricter, state).record("m", "a", NOON) == "queued_fallback"
    assert len(state.entries("m")) == 3
    newest = declare(f=0.7, more=cap).metrics
    assert Recorder(newest, state).record("m", "a", NOON) == "closed"


@pytest.mark.parametrize(
    ("f", "more"),
    [
        (0.4, "max_memoized_values = 3"),
        (0.5, "max_memoized_values = 4"),
        (0.5, "max_memoized_values = 3\nmax_reports_per_period = 2"),
    ],
)
def test_weaker_parameters_than_first_agreed_are_refused(make_state, f, more) -> None:
    state = make_state()
    first = declare(more="max_memoized_values = 3").metrics
    assert Recorder(first, state).record("m", "a", NOON) == "queued"
    assert Recorder(declare(f=f, more=more).metrics, state).record("m", "b", NOON + DAY) == "closed"
    assert Recorder(first, state).record("m", "b", NOON + DAY) == "queued"


def test_the_device_budget_holds_over_all_metrics(make_state) -> None:
    metrics = parse_metrics(
        "budget = 40\n" + "".join(text_of(n, more="max_memoized_values = 2") for n in "abc")
    )
    state = make_state()
    recorder = Recorder(metrics.metrics, state, budget=15.0)
    assert recorder.record("a", "x", NOON) == "queued"
    assert recorder.record("b", "x", NOON) == "queued_fallback"
    assert recorder.record("c", "x", NOON) == "closed"
    total = sum(committed(line, state.entries(line.name)) for line in state.lines())
    assert total == pytest.approx(3 * 4.394, abs=0.01)


def test_a_person_may_be_stricter_never_weaker(make_state) -> None:
    metrics = declare(more="max_memoized_values = 5\nmax_reports_per_period = 5").metrics
    strict = Recorder(metrics, make_state(), level=PrivacyLevel.of("strict"))
    assert strict.record("m", "a", NOON) == "queued"
    assert strict.record("m", "a", NOON) == "full"
    assert strict.record("m", "b", NOON + DAY) == "queued_fallback"
    looser = PrivacyLevel(max_values=50, max_reports_per_period=50, max_epsilon=math.inf)
    recorder = Recorder(metrics, make_state(), level=looser)
    assert [recorder.record("m", "a", NOON + 9 * DAY) for _ in range(6)].count("queued") <= 5


def test_a_person_bounds_the_epsilon_of_all_metrics(make_state) -> None:
    more = "max_memoized_values = 2"
    both = parse_metrics(text_of("a", more=more) + text_of("b", more=more)).metrics
    state = make_state()
    level = PrivacyLevel(max_epsilon=15.0)
    recorder = Recorder(both, state, level=level)
    assert recorder.record("a", "x", NOON) == "queued"
    assert recorder.record("b", "x", NOON) == "queued_fallback"
    total = sum(committed(line, state.entries(line.name)) for line in state.lines())
    assert total == pytest.approx(3 * 4.394, abs=0.01)


def test_reports_of_silent_periods_have_noise() -> None:
    """With 64 bits and a second round: two alike, or a bare one, once in a million runs."""
    metrics = declare(more="no_data = 'none'\nmax_memoized_values = 4").metrics
    state = MemoryState(new_secret(system_randomness))
    recorder = Recorder(metrics, state)
    assert recorder.record("m", "a", NOON) == "queued"
    assert recorder.fill_periods(NOON + 8 * DAY) == 7
    reports = [report.bits for report in state.take_reports()]
    bare = recorder.device("m").value_bits("none").to_bytes(8, "little")
    assert len({*reports, bare}) == 9


def test_a_second_thread_never_sees_another_days_limits(monkeypatch) -> None:
    """The first record of a day works out its limits; what another thread reads meanwhile."""
    metrics = declare(more="max_memoized_values = 2").metrics
    device = Recorder(metrics, MemoryState(new_secret(system_randomness)))
    device.record("m", "a", NOON)
    way, day = device._metric_states["m"], int(NOON // DAY) + 1
    meanwhile: list[Limits] = []

    def slowly(*fields: Any) -> Limits:
        if not meanwhile:
            meanwhile.append(Limits("", 0, 0, "", None))  # the one below comes in between
            meanwhile[0] = way.limits(day)
            way.limits(day - 1)  # and a third one, whose clock is yesterday's
        return Limits(*fields)

    monkeypatch.setattr("client_sdk.recording.recorder.Limits", slowly)
    assert way.limits(day).period == day
    assert meanwhile[0].period == day


@pytest.mark.parametrize("bound", [0, -1.0, math.nan, "3", True])
def test_a_bound_that_is_not_positive_is_refused(bound) -> None:
    with pytest.raises(ParameterError, match=r"max_values = .* is not a number above 0"):
        PrivacyLevel(max_values=bound)  # type: ignore[arg-type]


def test_categories_without_a_fallback_need_a_place_each(make_state) -> None:
    more = "categories = ['x', 'y', 'z']\nmax_memoized_values = 3\n"
    metrics = declare(kind="category", more=more).metrics
    state = make_state()
    assert Recorder(metrics, state).record("m", "x", NOON) == "queued"
    assert len(state.entries("m")) == 3
    two = PrivacyLevel(max_values=2)
    other = MemoryState(bytes(32))
    assert Recorder(metrics, other, level=two).record("m", "x", NOON) == "closed"


def test_entries_of_a_list_are_shuffled(make_state) -> None:
    """Whoever reads the file would know which value each count of reports is of."""
    more = f"categories = {list('abcdefgh')}\nmax_memoized_values = 8\n"
    state = make_state()
    assert Recorder(declare(kind="category", more=more).metrics, state).record("m", "a", NOON)
    found = [entry.digest for entry in state.entries("m")]
    assert len(found) == 8
    assert found == sorted(found)


def test_spending_is_epsilon_n_of_each_value(make_state) -> None:
    metrics = declare(more="max_memoized_values = 3\nmax_reports_per_period = 100").metrics
    state = make_state()
    recorder = Recorder(metrics, state)
    for value, times in (("a", 3), ("b", 5)):
        for _ in range(times):
            recorder.record("m", value, NOON)
    (line,) = state.lines()
    params = metrics["m"].params
    expected = params.epsilon_n(3) + params.epsilon_n(5)
    assert spent(line, state.entries("m")) == pytest.approx(expected)


def test_another_process_that_changed_the_secret_is_noticed(tmp_path) -> None:
    state = SqliteState(tmp_path / "s", threading.RLock())
    metrics = declare(more="max_memoized_values = 3\nmax_reports_per_period = 9").metrics
    try:
        with pytest.raises(StateChangedError):
            Recorder(metrics, state)  # no secret
        state.set_secret(bytes(32))
        recorder = Recorder(metrics, state)
        recorder.record("m", "a", NOON)
        state.set_secret(bytes(31) + b"x")
        with pytest.raises(StateChangedError):
            recorder.record("m", "b", NOON)
    finally:
        state.close()


@pytest.mark.parametrize("prepared", [True, False])
def test_a_secret_wiped_late_leaves_nothing(tmp_path, monkeypatch, prepared) -> None:
    """Another process wipes between any look at the secret and the write that follows."""
    metrics = declare(more="max_memoized_values = 3\nmax_reports_per_period = 9").metrics
    for turn in range(4):
        path = tmp_path / f"s{turn}"
        state, other = (SqliteState(path, threading.RLock()) for _ in range(2))
        state.set_secret(bytes(32))
        recorder = Recorder(metrics, state)
        if prepared:
            recorder.record("m", "a", NOON)
        begin, left = state.transaction, [turn]

        def transaction(begin: Any = begin, left: Any = left, state: Any = state,
                        other: Any = other) -> Any:  # fmt: skip
            if not state.database.in_transaction:
                left[0] -= 1
                if left[0] == -1:
                    wipe_state(other)
                    other.set_secret(bytes(31) + b"x")
            return begin()

        monkeypatch.setattr(state, "transaction", transaction)
        with suppress(StateChangedError):
            recorder.record("m", "b", NOON)
        if left[0] < 0:
            for table in ("entries", "queue", "sources"):
                assert other.rows(f"SELECT * FROM {table}") == [], (turn, table)
        state.close()
        other.close()
        if left[0] >= 0:
            return
    raise AssertionError("there was no end of transactions")


@pytest.mark.parametrize("bound", list(Promise(*range(1, 7)).to_fields())[:6])
def test_each_bound_of_a_promise_is_compared_alone(bound) -> None:
    first = Promise(1.0, 0.5, 3.0, 3.0, 100.0, 1.0)
    more = first.replace(**{bound: 1.01 * first.to_fields()[bound]})
    assert more.weaker_than(first) == [bound]
    assert first.weaker_than(more) == first.weaker_than(first) == []


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
