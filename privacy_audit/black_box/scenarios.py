"""Pairs of lives that an attacker must not tell apart better than a claim allows.

Each scenario is two worlds, 0 and 1: the same days, other values. Watched are the reports of the
last days; the attack looks at the bits of `values`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal, cast

from privacy_audit.black_box.lives import NOTHING, Step, Value
from rappor_core.calendar import PERIOD_DAYS, day_of, last_day, period_number
from rappor_core.metrics.metric import Metric

Box = Literal["encoder", "device", "installed"]
PERIODS = (1, 7, 30)
DEVICE_PERIODS = 7
TOGETHER = 5  # reports of a long life between two openings: opening is what costs most
MOST_FILLERS = 40  # values recorded to reach the cap
KINDS = ("string", "category", "boolean", "pair", "location")  # others need attacks of their own
POOL = tuple(f"audit-{number:03d}.example.org" for number in range(60))


@dataclass(frozen=True)
class Scenario:
    """Two worlds of one metric, and what they may differ by.

    worlds: what is recorded on which day.  by_cohort: the two values of each cohort in place of
        those in `worlds`, for pairs whose bits collide in every cohort.
    watched: the number of reports, the last ones, that are attacked.
    values: of the two worlds, and one that must not show.  claim: nats.  box: how much of the
        client is in it.  noise: whether its reports also serve the tests of the noise.
    together: reports of a device between two openings, at most.
    """

    name: str
    metric: str
    box: Box
    worlds: tuple[tuple[Step, ...], tuple[Step, ...]]
    watched: int
    values: tuple[Value, Value, Value]
    claim: float
    by_cohort: tuple[tuple[str, str], ...] = ()
    noise: bool = False
    expected: int = 0
    together: int = 1


def why_not(metric: Metric, *, upkeep: bool) -> str:
    """Why no attack here fits the metric; "" where some do. upkeep: as in `scenarios`."""
    if metric.kind not in KINDS:
        return f"there are no attacks on kind {metric.kind!r}"
    if metric.location is None:
        return ""
    if not upkeep:
        return "the protocol of --command has no places"
    if metric.location.pairs:
        return "there are no attacks on trips"
    return "" if metric.location.grid.box is not None else "its grid has no box to take places from"


def left_out(metric: Metric, *, upkeep: bool) -> Iterator[str]:
    """Lives that an audit of the metric does not try. upkeep: as in `scenarios`."""
    if metric.no_data is not None:
        if metric.location is not None:
            yield "no_data was not audited: there are no attacks on slots without a fix"
        elif not upkeep:
            yield "no_data was not audited: the protocol has no upkeep"
        elif metric.period == "month":
            yield "no_data was not audited: its period is a month"
    if metric.fallback is not None and fillers(metric, values_of(metric), 0) is None:
        yield "values past the cap were not tried: a list, a cap or max_reports keeps them away"


def scenarios(metric: Metric, *, upkeep: bool) -> Iterator[Scenario]:
    """All pairs for one declared metric. upkeep: the client does more than answer `record`."""
    if why_not(metric, upkeep=upkeep):
        return
    if metric.location is not None:
        yield from _places(metric)
        return
    pool = values_of(metric)
    for periods in PERIODS:
        if metric.max_reports is None or periods <= metric.max_reports:
            yield _memoised(metric, "encoder", disjoint(metric, pool), periods, noise=True)
    yield from _colliding(metric, pool)
    periods = min(DEVICE_PERIODS, metric.max_reports or DEVICE_PERIODS)
    yield _ledger(metric, pool, periods)
    yield from _past_cap(metric, pool, "device")
    if metric.no_data is not None and upkeep and metric.period != "month":
        yield _no_data(metric, pool)


def values_of(metric: Metric) -> tuple[Value, ...]:
    """Values to record: all of a list, or strings."""
    if metric.num_values is None:
        return POOL
    return tuple(cast(Value, value) for value in metric.rules.all_values(metric))


def disjoint(metric: Metric, pool: tuple[Value, ...]) -> tuple[Value, Value]:
    """The two of the pool with most bits that differ, over all cohorts."""
    cohorts = range(min(metric.params.num_cohorts, 64))
    bits = {value: [metric.value_bits(value, cohort) for cohort in cohorts] for value in pool[:16]}

    def apart(pair: tuple[Value, Value]) -> int:
        return sum((a ^ b).bit_count() for a, b in zip(bits[pair[0]], bits[pair[1]], strict=True))

    return max(combinations(bits, 2), key=apart)


def start_days(metric: Metric, periods: int) -> list[int]:
    """The last day of so many periods, all of them over before the metric expires."""
    last = period_number(metric.period, day_of(metric.expires)) - 1
    return [last_day(metric.period, last - back) for back in reversed(range(periods))]


def _memoised(
    metric: Metric, box: Box, pair: tuple[Value, Value], periods: int, *, noise: bool = False
) -> Scenario:
    """One value for all periods."""
    days = start_days(metric, periods)
    worlds = tuple((day, pair[0]) for day in days), tuple((day, pair[1]) for day in days)
    third = metric.fallback if metric.fallback is not None else pair[0]
    claim = metric.params.epsilon_n(periods)
    name = f"disjoint values, {_reports(periods)}"
    return Scenario(
        name, metric.name, box, worlds, periods, (*pair, third), claim, noise=noise,
        expected=periods, together=TOGETHER if periods > DEVICE_PERIODS else 1,
    )  # fmt: skip


def _ledger(metric: Metric, pool: tuple[Value, ...], periods: int) -> Scenario:
    """One value for all periods, recorded once more in each than a period has reports.

    Where a period has several, each is recorded once: its limit is not reached.
    """
    base = replace(_memoised(metric, "device", disjoint(metric, pool), periods), name="ledger")
    if metric.max_reports_per_period != 1:
        return base
    first, second = (tuple(step for step in world for _ in range(2)) for world in base.worlds)
    return replace(base, worlds=(first, second))


def _reports(number: int) -> str:
    return "1 report" if number == 1 else f"{number} reports"


def _colliding(metric: Metric, pool: tuple[Value, ...]) -> Iterator[Scenario]:
    """Pairs of strings that share one bit of two or more in their cohort: a smaller claim."""
    params = metric.params
    if params.num_hashes < 2 or metric.num_values is not None:
        return
    pairs = [_shared_bit(metric, pool, cohort) for cohort in range(params.num_cohorts)]
    if any(pair is None for pair in pairs):
        return
    found = tuple((str(pair[0]), str(pair[1])) for pair in pairs if pair is not None)
    fewer = params.replace(num_hashes=params.num_hashes - 1)
    base = _memoised(metric, "encoder", found[0], 1)
    yield replace(
        base,
        name="colliding values, 1 report",
        by_cohort=found,
        claim=fewer.epsilon_n(1),
    )


def _shared_bit(metric: Metric, pool: tuple[Value, ...], cohort: int) -> tuple[Value, Value] | None:
    h = metric.params.num_hashes
    bits = [(value, metric.value_bits(value, cohort)) for value in pool]
    full = [(value, b) for value, b in bits if b.bit_count() == h]
    for (one, a), (other, b) in combinations(full, 2):
        if (a & b).bit_count() == 1:
            return one, other
    return None


def fillers(metric: Metric, pool: tuple[Value, ...], kept: int) -> list[Value] | None:
    """Values that leave `kept` places of the cap; None where the cap cannot be reached."""
    if metric.fallback is None or metric.num_values is not None:
        return None
    reserved = 1 + (metric.no_data is not None)
    number = metric.max_permanent_responses - reserved - kept
    total = number + kept + DEVICE_PERIODS
    if not 0 <= number <= MOST_FILLERS or (metric.max_reports or total) < total:
        return None
    return list(pool[-number:]) if number else []


def _past_cap(metric: Metric, pool: tuple[Value, ...], box: Box) -> Iterator[Scenario]:
    """Past the cap all values look alike; and the fallback is noised as any value is."""
    full, one_left = fillers(metric, pool, 0), fillers(metric, pool, 1)
    if full is None or one_left is None:
        return
    a, b = disjoint(metric, pool)
    assert metric.fallback is not None  # noqa: S101 (fillers asks for it)
    number = DEVICE_PERIODS
    days = start_days(metric, len(full) + number)
    first = tuple(zip(days, full, strict=False))
    rest = days[len(full) :]
    worlds = first + tuple((d, a) for d in rest), first + tuple((d, b) for d in rest)
    yield Scenario(
        f"values past the cap, {number} reports", metric.name, box, worlds, number,
        (a, b, metric.fallback), 0.0, expected=len(days),
    )  # fmt: skip
    filled = tuple(zip(days, [*one_left, a], strict=False))
    rest = days[len(filled) :]
    worlds = filled + tuple((d, a) for d in rest), filled + tuple((d, b) for d in rest)
    claim = metric.params.epsilon_n(len(rest))
    yield Scenario(
        f"a value or the fallback, {_reports(len(rest))}", metric.name, box, worlds, len(rest),
        (a, metric.fallback, b), claim, expected=len(days),
    )  # fmt: skip


def _no_data(metric: Metric, pool: tuple[Value, ...]) -> Scenario:
    """A value every period, or silence that `no_data` must cover; the first period is alike."""
    a, b = disjoint(metric, pool)
    number = min(DEVICE_PERIODS, metric.accept_days // PERIOD_DAYS[metric.period] + 1)
    if metric.max_reports is not None:
        number = min(number, metric.max_reports - 1)
    days = start_days(metric, number + 2)  # no_data of a period is sent when the next has begun
    first, last = (days[0], a), (days[-1], NOTHING)
    worlds = (
        (first, *((day, b) for day in days[1:-1]), last),
        (first, *((day, NOTHING) for day in days[1:-1]), last),
    )
    assert metric.no_data is not None  # noqa: S101 (asked by the caller)
    claim = metric.params.epsilon_n(number)
    return Scenario(
        f"a value or no_data, {_reports(number)}", metric.name, "device", worlds, number,
        (b, metric.no_data, a), claim, expected=number + 1,
    )  # fmt: skip


def _places(metric: Metric) -> Iterator[Scenario]:
    """Two places far apart, an hourly fix at one of them in every period."""
    location = metric.location
    assert location is not None  # noqa: S101 (asked by the caller)
    places = _two_places(metric)
    if location.mode == "once":
        periods, reports = len(location.slots), 1
    elif location.mode == "window":
        periods, reports = location.window, 1
    else:
        periods, reports = 3, 3 * len(location.slots)
    days = _all_days(metric, periods)
    worlds = _at_place(days, places[0]), _at_place(days, places[1])
    yield Scenario(
        f"two places, {_reports(reports)}", metric.base_name, "device", worlds,
        reports, (*places, places[0]), metric.params.epsilon_n(reports), expected=reports,
    )  # fmt: skip


def _two_places(metric: Metric) -> tuple[tuple[float, float], tuple[float, float]]:
    """Centres of the first and the last cell of the coarsest level."""
    location = metric.location
    assert location is not None  # noqa: S101 (asked by the caller)
    grid = location.grid
    cells = grid.cells(min(grid.levels))
    if len(cells) < 2:
        cells = grid.cells(grid.finest)
    return grid.centre(cells[0]), grid.centre(cells[-1])


def _all_days(metric: Metric, periods: int) -> list[int]:
    """Every day of so many whole periods, and the day after them."""
    last = period_number(metric.period, day_of(metric.expires)) - 2
    first = last_day(metric.period, last - periods) + 1
    return list(range(first, last_day(metric.period, last) + 2))


def _at_place(days: list[int], place: Value) -> tuple[Step, ...]:
    return (*((day, place) for day in days[:-1]), (days[-1], NOTHING))
