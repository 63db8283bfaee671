"""The comparison of a device's answers with the answers that its metric's declaration requires.

Devices record random values over some periods, even after the metric expires, in two runs. In the
first run, there is almost no noise, so a report shows its answer: each answer must be the required
one, and none may be missing or extra. This tests a device's cap, its periods and its last day. With
the declared noise, the bits of each kind of answer (a value, the fallback, `other`, no data) must
have the declared probabilities.
"""

import os
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Final, NamedTuple

from scipy import stats

from privacy_audit.black_box.checks import Check, bits_off, counted, one_of, test
from privacy_audit.black_box.derivations import round_test
from privacy_audit.black_box.noise_sums import chances, permanent_table
from privacy_audit.black_box.program_client import ClientSource, Event, Life, SeenReport, Value
from privacy_audit.black_box.scenarios import Step, hashes_text, start_days, values_of
from rappor_core.calendar import day_of, last_day, period_number
from rappor_core.grid.box import OTHER
from rappor_core.mechanism import PROBABILITY_SCALE
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile

PART: Final = "answers"
PERIODS = 9  # the minimum; more if needed to exceed the cap
MAX_PERIODS = 45
MORE_VALUES = 5  # devices draw from this many values more than the cap
AFTER = (1, 2, 3, 30, 366)  # periods after the one in which the metric expires
ODD_VALUES = ("", "x" * 400, "\u96ea \u2603")


class Memory:
    """The ledger that a device must have; it begins with the fallback, or with all values."""

    def __init__(self, metric: Metric, cohort: int) -> None:
        self._metric, self._cohort = metric, cohort
        always = [x for x in (metric.fallback, metric.no_data) if x is not None]
        values = always if always and metric.fallback else metric.rules.all_values(metric)
        self._held = {metric.value_bits(value, cohort) for value in values}

    def answer(self, value: object) -> tuple[int, str]:
        """Record a value; return the bits B that the device must answer, and the kind of answer.

        The kind is `value`, `fallback`, `no_data` or `other`.
        """
        metric = self._metric
        bits = metric.value_bits(value, self._cohort)
        if bits not in self._held and len(self._held) < metric.max_permanent_responses:
            self._held.add(bits)
        if bits in self._held:
            named = {metric.fallback: "fallback", metric.no_data: "no_data", OTHER: "other"}
            return bits, named.get(value, "value") if isinstance(value, str) else "value"
        return metric.value_bits(metric.fallback, self._cohort), "fallback"


def expected_answers(
    metric: Metric, cohort: int, steps: tuple[Step, ...]
) -> dict[int, tuple[int, str]]:
    """Return the expected reports of a device by day: the bits B of the answer, and its kind.

    They follow docs/protocol.md and docs/client.md, not the client: one report per period, for its
    first value, up to `max_reports` and the day of expiry.
    """
    memory, last = Memory(metric, cohort), None
    answers: dict[int, tuple[int, str]] = {}
    for day, value in steps:
        period = period_number(metric.period, day)
        if period != last and day <= day_of(metric.expires):
            answers[day] = memory.answer(value)
            last = period
    return dict(islice(answers.items(), metric.max_reports))


def _with_chances(metric: Metric, **chances: int) -> Metric:
    mechanism = metric.params.mechanism.replace(**chances)
    return metric.replace(params=metric.params.replace(mechanism=mechanism))


def nearly_clear(metric: Metric) -> Metric:
    """Return the metric with almost no noise: 2**-16 per bit, the minimum of a valid file."""
    last = _with_chances(metric, p2=PROBABILITY_SCALE, q2=0)
    if not last.params.mechanism.has_permanent_round:
        return last
    others = metric.params.num_bits - 1 if metric.params.scheme.symbols else 1
    return _with_chances(last, p1=PROBABILITY_SCALE - others, q1=1)


class Lived(NamedTuple):
    """The numbers of expected and of other reports that devices with random values sent."""

    another: int  # reports with an unexpected answer
    missing: int
    extra: int
    total: int  # the number of expected reports
    # For each kind of answer, the last report of each device and B of its answer.
    kinds: dict[str, list[tuple[bytes, int]]]


def answer_checks(source: ClientSource, metric: Metric, devices: int) -> Iterator[Check]:
    """Yield the checks of the answers of one metric.

    Args:
        source: The client.
        metric: A declared metric whose values are reported at once.
        devices: The number of devices, each of which runs twice.

    Raises:
        AuditedClientError: The client fails.
    """
    clear, noisy = (_live(source, declared, devices) for declared in (nearly_clear(metric), metric))
    name, k, chance = metric.base_name, metric.params.num_bits, 1 / PROBABILITY_SCALE
    if metric.params.scheme.symbols:
        chance = (k - 1) / PROBABILITY_SCALE
    elif k > 1:  # at least two bits are wrong
        chance = (k / PROBABILITY_SCALE) ** 2
    p_value = (
        float(stats.binom.sf(clear.another - 1, clear.total, chance)) if clear.another else 1.0
    )
    yield test(
        name, "each report is the correct answer for the values and the history", PART, p_value,
        f"{clear.another:,} of {clear.total:,} reports gave another answer",
        one_of(clear.total, "reports with another answer", chance),
    )  # fmt: skip
    missing, extra = clear.missing + noisy.missing, clear.extra + noisy.extra
    yield counted(
        name, "one report for each period that needs one, and no others", PART, missing + extra,
        f"{missing:,} missing, {extra:,} too many", clear.total + noisy.total,
        "reports missing or too many",
    )  # fmt: skip
    for kind, pairs in sorted(noisy.kinds.items()):
        yield _noise_of(metric, kind, pairs)


def _live(source: ClientSource, metric: Metric, devices: int) -> Lived:
    """Let devices record random values; compare their reports with the required ones."""
    draw = Random(os.urandom(16))
    pool = _pool(metric, draw)
    end = period_number(metric.period, day_of(metric.expires))
    days = [
        *start_days(
            metric, min(max(PERIODS, metric.max_permanent_responses + MORE_VALUES), MAX_PERIODS)
        ),
        *(last_day(metric.period, end + place) for place in AFTER),
    ]
    steps = [tuple((day, draw.choice(pool)) for day in days) for _ in range(devices)]
    lives = [
        Life(os.urandom(32), tuple(Event(metric.name, day, value) for day, value in step))
        for step in steps
    ]
    with source.declaring(MetricsFile({metric.name: metric})).started() as client:
        reports = client.record(lives)
    return _compared(metric, steps, reports)


def _pool(metric: Metric, draw: Random) -> list[Value]:
    pool = list(values_of(metric))
    always: list[Value] = [x for x in (metric.fallback, metric.no_data) if x is not None]
    odd = ODD_VALUES if hashes_text(metric) else ()
    number = min(metric.max_permanent_responses + MORE_VALUES, len(pool))
    return [*draw.sample(pool, number), *always, *odd]


def _compared(metric: Metric, steps: list[tuple[Step, ...]], rows: list[list[SeenReport]]) -> Lived:
    another = missing = extra = total = 0
    tolerated = 0 if metric.params.num_bits == 1 or metric.params.scheme.symbols else 1  # bits
    kinds: dict[str, list[tuple[bytes, int]]] = defaultdict(list)
    for life, reports in zip(steps, rows, strict=True):
        cohort = reports[0].cohort if reports else 0
        expected = expected_answers(metric, cohort, life)
        sent = {report.day: report for report in reports}
        extra += len(reports) - len(sent) + len(sent.keys() - expected.keys())
        missing += len(expected.keys() - sent.keys())
        last: dict[str, tuple[bytes, int]] = {}
        for day in sorted(sent.keys() & expected.keys()):
            (answer, kind), bits = expected[day], sent[day].bits
            total += 1
            off = (int.from_bytes(bits, "little") ^ answer).bit_count()
            another += off > tolerated
            last[kind] = bits, answer
        for kind, pair in last.items():
            kinds[kind].append(pair)
    return Lived(another, missing, extra, total, dict(kinds))


def _noise_of(metric: Metric, kind: str, pairs: list[tuple[bytes, int]]) -> Check:
    """Check the noise on the set bits and on the clear bits of B, for one kind of answer."""
    params = metric.params
    shown = permanent_table([int.from_bytes(bits, "little") for bits, _ in pairs], params.num_bits)
    held = permanent_table([answer for _, answer in pairs], params.num_bits)
    declared = chances(params, permanent=False)
    p_value, findings = round_test(params, shown, held, declared)
    what = f"answers of the kind {kind!r} have the declared noise"
    smallest = bits_off(declared[0], held.sum(axis=0), 2)
    return test(metric.base_name, what, PART, p_value, findings, smallest)
