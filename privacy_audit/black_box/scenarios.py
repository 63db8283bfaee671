"""Pairs of device histories that an attacker must not distinguish better than claimed.

Each scenario is two worlds, 0 and 1: the same days, with different values. The reports of the last
days are watched; the attack uses the bits of `values`.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Literal, cast

from privacy_audit.black_box.program_client import Value
from rappor_core.calendar import day_of, last_day, period_number
from rappor_core.grid.box import NO_DATA, OTHER
from rappor_core.grid.grid import PAIR_SEPARATOR
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.number import Number

Part = Literal["encoder", "device"]
Step = tuple[int, Value]  # a day since 1970-01-01, and the value recorded on it

PERIODS = (1, 7, 30)
DEVICE_PERIODS = 7
GAPS = {"day": 401, "week": 58, "month": 13}  # the gap in periods between two reports of a device
TOGETHER = 5  # reports in a long history between two openings, which take most of the time
MAX_FILLERS = 40  # the maximum number of values recorded to reach the cap
MAX_CELLS = 60
POOL = tuple(f"audit-{number:03d}.example.org" for number in range(60))
STARTS = tuple(
    f"{chr(97 + number % 26)}{chr(97 + number // 3)}-audit.example.org" for number in range(60)
)  # they differ in their first letters, so a prefix code separates them
ODD = (
    ("", "long-" * 300),
    ("\u96ea \u2603 e\u0301", " \t\n"),
    ("nul\0inside", "https://user:pass@audit.example.org/" + "?q=%20" * 60),
)  # strings that an app might record, which must get noise like any other


@dataclass(frozen=True)
class Scenario:
    """Two possible histories (worlds) of a device, and how well reports may tell them apart."""

    name: str
    metric: str
    part: Part  # the mechanism alone, or a device with its ledger
    worlds: tuple[tuple[Step, ...], tuple[Step, ...]]  # the values and days of recordings
    watched: int  # the number of last reports that the attack uses
    values: tuple[Value, Value, Value]  # recorded in world 0, in world 1, and in neither
    claim: float  # the epsilon, in nats, that reports of the two worlds must not exceed
    expected: int  # the number of reports of a device
    noise: bool = False  # whether its reports are also used in noise tests
    together: int = 1  # the maximum number of reports between two openings of a device
    num_bits: int = 128


def why_not(metric: Metric) -> str:
    """Return why no attack scenario exists for the metric; "" if there is one."""
    if metric.location is not None and metric.location.pairs:
        return "there are no attacks on trips"
    return ""


def reports_at_once(metric: Metric) -> bool:
    """Return whether recording a value immediately queues a report, as ledger audits require."""
    return not (metric.rules.takes_fixes or metric.location or metric.rules.collected)


def left_out(metric: Metric) -> Iterator[str]:
    """Yield what an audit of the metric does not test."""
    if not reports_at_once(metric):
        yield "only its encoder was audited: a device reports it when a period ends"
        return
    if metric.no_data is not None:
        yield "silent periods were not audited: the protocol has none"
    if metric.fallback is not None and fillers(metric, values_of(metric), 0) is None:
        yield "values past the cap were not tried: a list, a cap or max_reports keeps them away"


def scenarios(metric: Metric) -> Iterator[Scenario]:
    """Yield all scenarios of one declared metric."""
    if why_not(metric):
        return
    pool = values_of(metric)
    pair = (pool[-1], pool[0]) if metric.rules.takes_numbers else disjoint(metric, pool)
    for periods in PERIODS:
        if metric.max_reports is None or periods <= metric.max_reports:
            yield _memoized(metric, "encoder", pair, periods, noise=True)
    if metric.rules.takes_numbers:
        no_data = _memoized(metric, "encoder", (pair[0], None), 1)
        yield replace(no_data, name=f"a number or no data, {_reports(1)}")
    if hashes_text(metric):
        yield replace(_memoized(metric, "encoder", ODD[0], 1), name="odd strings, 1 report")
    if reports_at_once(metric):
        yield _ledger(metric, pair)
        yield from _past_cap(metric, pool)


def values_of(metric: Metric) -> tuple[Value, ...]:
    """Return values to record for a metric: its whole list, or some strings, numbers or cells."""
    if metric.rules.free_text:
        return POOL if hashes_text(metric) else STARTS
    if metric.rules.takes_numbers:
        return _numbers(metric.details)
    if metric.location is not None:
        return metric.location.grid.cells(metric.location.level)[:MAX_CELLS]
    if metric.rules.takes_fixes:
        sides = (metric.details.cells[0], metric.details.cells[-1], OTHER, NO_DATA)
        return tuple(f"{a}{PAIR_SEPARATOR}{b}" for a in sides for b in sides)
    return tuple(cast(Value, value) for value in metric.rules.all_values(metric))


def hashes_text(metric: Metric) -> bool:
    """Return whether a string's bits are hashes of the whole string, not of a code prefix."""
    return metric.rules.free_text and metric.params.scheme.hashed


def _numbers(number: Number) -> tuple[Value, ...]:
    edges = number.edges
    low = edges[0] - 1 if number.negative else 0.0
    middle = [float(math.floor((a + b) / 2)) if number.whole else (a + b) / 2
              for a, b in pairwise(edges)]  # fmt: skip
    return tuple(dict.fromkeys((low, *middle, float(math.ceil(edges[-1]) + 1))))


def disjoint(metric: Metric, pool: tuple[Value, ...]) -> tuple[Value, Value]:
    """Return the two values of the pool with the most different bits, over all cohorts."""
    cohorts = range(0, metric.params.num_cohorts, max(1, metric.params.num_cohorts // 64))
    bits = {value: [metric.value_bits(value, cohort) for cohort in cohorts] for value in pool[:16]}

    def apart(pair: tuple[Value, Value]) -> int:
        return sum((a ^ b).bit_count() for a, b in zip(bits[pair[0]], bits[pair[1]], strict=True))

    return max(combinations(bits, 2), key=apart)


def start_days(metric: Metric, periods: int) -> list[int]:
    """Return the last days of `periods` periods that end before the metric expires."""
    last = period_number(metric.period, day_of(metric.expires)) - 1
    return [last_day(metric.period, last - back) for back in reversed(range(periods))]


def spaced_days(metric: Metric, periods: int) -> list[int]:
    """Return days as `start_days` does, but spaced by months, years and long silences."""
    gap = GAPS[metric.period]
    return start_days(metric, 1 + (periods - 1) * gap)[::gap]


def _memoized(
    metric: Metric, part: Part, pair: tuple[Value, Value], periods: int, *, noise: bool = False
) -> Scenario:
    """Return a scenario in which each of the two histories has the same value in all periods."""
    days = spaced_days(metric, periods)
    worlds = tuple((day, pair[0]) for day in days), tuple((day, pair[1]) for day in days)
    third = metric.fallback if metric.fallback is not None else pair[0]
    return Scenario(
        f"disjoint values, {_reports(periods)}", metric.name, part, worlds, periods,
        (*pair, third), metric.params.epsilon_n(periods), periods, noise=noise,
        together=TOGETHER if periods > DEVICE_PERIODS else 1, num_bits=metric.params.num_bits,
    )  # fmt: skip


def _ledger(metric: Metric, pair: tuple[Value, Value]) -> Scenario:
    """Return a scenario with one value that is recorded once more per period than the limit.

    If a period allows several reports, each value is recorded once, and the limit is not reached.
    """
    periods = min(DEVICE_PERIODS, metric.max_reports or DEVICE_PERIODS)
    base = replace(_memoized(metric, "device", pair, periods, noise=periods > 1), name="ledger")
    if metric.max_reports_per_period != 1:
        return base
    first, second = (tuple(step for step in world for _ in range(2)) for world in base.worlds)
    return replace(base, worlds=(first, second))


def _past_cap(metric: Metric, pool: tuple[Value, ...]) -> Iterator[Scenario]:
    """Yield scenarios at the cap: two values beyond it, and the last value against the fallback."""
    full, one_left = fillers(metric, pool, 0), fillers(metric, pool, 1)
    if full is None or one_left is None:
        return
    a, b = disjoint(metric, past_cap(metric, pool, full))
    days = start_days(metric, len(full) + DEVICE_PERIODS)

    def lives(recorded: list[Value], values: tuple[Value, Value, Value], claim: float) -> Scenario:
        first, rest = tuple(zip(days, recorded, strict=False)), days[len(recorded) :]
        worlds = first + tuple((d, a) for d in rest), first + tuple((d, b) for d in rest)
        return Scenario(
            _reports(len(rest)), metric.name, "device", worlds, len(rest), values, claim, len(days)
        )

    past = lives(full, (a, b, metric.fallback), 0.0)
    yield replace(past, name=f"values past the cap, {past.name}")
    last = lives([*one_left, a], (a, metric.fallback, b), 0.0)
    claim = metric.params.epsilon_n(last.watched)
    yield replace(last, name=f"a value or the fallback, {last.name}", claim=claim)


def fillers(metric: Metric, pool: tuple[Value, ...], spare: int) -> list[Value] | None:
    """Return values that fill all but `spare` places of the cap; None if impossible."""
    if metric.fallback is None:
        return None
    if metric.num_values is not None and not metric.params.scheme.own_bits:
        return None  # with few values, two may share bits and one place
    reserved = 1 + (metric.no_data is not None)
    number = metric.max_permanent_responses - reserved - spare
    total = number + spare + DEVICE_PERIODS
    if not 0 <= number <= MAX_FILLERS or (metric.max_reports or total) < total:
        return None
    others = free(metric, pool)
    recorded = list(others[len(others) - number :])
    return recorded if len(past_cap(metric, pool, recorded)) > 1 else None


def past_cap(metric: Metric, pool: tuple[Value, ...], recorded: list[Value]) -> tuple[Value, ...]:
    """Return a pool's values whose bits differ from recorded and reserved values in all cohorts."""
    always = [value for value in (metric.fallback, metric.no_data) if value is not None]
    cohorts = range(metric.params.num_cohorts)
    bits_of = [{metric.value_bits(v, c) for v in (*recorded, *always)} for c in cohorts]

    def has_place(value: Value) -> bool:
        return any(metric.value_bits(value, cohort) in bits_of[cohort] for cohort in cohorts)

    return tuple(value for value in free(metric, pool) if not has_place(value))


def free(metric: Metric, pool: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return values that are neither the fallback nor the value for no data."""
    return tuple(value for value in pool if value not in (metric.fallback, metric.no_data))


def _reports(number: int) -> str:
    return "1 report" if number == 1 else f"{number} reports"
