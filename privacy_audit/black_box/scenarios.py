"""Make the scenarios of a metric: pairs of lives that an attacker must not tell apart better
than claimed.

Each scenario is two worlds, 0 and 1: the same days, other values. Watched are the reports of the
last days; the attack looks at the bits of `values`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import cast

from privacy_audit.black_box.asked_places import asked_of_fixes
from privacy_audit.black_box.flow_scenarios import (
    flow_scenarios,
    left_out_of_flows,
    values_of_flow,
)
from privacy_audit.black_box.lives import NOTHING, Value
from privacy_audit.black_box.number_scenarios import (
    IN_TURN,
    left_out_of_devices,
    number_scenarios,
    numbers_of,
)
from privacy_audit.black_box.place_scenarios import place_scenarios
from privacy_audit.black_box.scenario import (
    DEVICE_PERIODS,
    PERIODS,
    Box,
    Scenario,
    memoised,
    reports_text,
    start_days,
)
from rappor_core.calendar import PERIOD_DAYS
from rappor_core.metrics.metric import Metric

MOST_FILLERS = 40  # values recorded to reach the cap
KINDS = ("string", "category", "boolean", "pair", "location", "number", "discover", "flow")
POOL = tuple(f"audit-{number:03d}.example.org" for number in range(60))
STARTS = tuple(
    f"{chr(97 + number % 26)}{chr(97 + number // 3)}-audit.example.org" for number in range(60)
)  # that differ in their first letters
ODD = (
    ("", "long-" * 300),
    ("\u96ea \u2603 e\u0301", " \t\n"),
    ("nul\0inside", "https://user:pass@audit.example.org/" + "?q=%20" * 60),
)  # strings that an app may well record: each is noised as any other
LONG = 100  # characters that two strings begin with: more than a code's bits


def why_not(metric: Metric, *, upkeep: bool) -> str:
    """The reason why no scenario fits the metric; "" if some do. upkeep: as in `scenarios`."""
    if metric.kind not in KINDS:
        return f"there are no attacks on kind {metric.kind!r}"
    places = asked_of_fixes(metric)
    if places is None:
        return ""
    if not upkeep:
        return "the protocol of --command has no places"
    if places.pairs:
        return "there are no attacks on trips"
    return "" if places.grid.box is not None else "its grid has no box to take places from"


def left_out(metric: Metric, *, upkeep: bool) -> Iterator[str]:
    """The scenarios that an audit of the metric does not try, in words. upkeep: as in
    `scenarios`."""
    if metric.kind == "flow":
        if left_out_of_flows(metric):
            yield left_out_of_flows(metric)
        return
    if metric.no_data is not None:
        if metric.location is not None:
            yield "no_data was not audited: there are no attacks on slots without a fix"
        elif not upkeep:
            yield "no_data was not audited: the protocol has no upkeep"
        elif metric.period == "month":
            yield "no_data was not audited: its period is a month"
    if metric.kind == "number":
        if not upkeep:
            yield "devices were not audited: the protocol has no upkeep"
        elif left_out_of_devices(metric):
            yield left_out_of_devices(metric)
    if metric.fallback is None:
        return
    if fillers(metric, values_of(metric), 0) is not None:
        if not upkeep:
            yield "values past the cap of the next version were not tried: the protocol has none"
    else:
        yield "values past the cap were not tried: a list, a cap or max_reports keeps them away"


def scenarios(metric: Metric, *, upkeep: bool) -> Iterator[Scenario]:
    """Yield all scenarios of one declared metric. upkeep: the client does more than answer
    `record`."""
    if why_not(metric, upkeep=upkeep):
        return
    if metric.location is not None:
        yield from place_scenarios(metric)
        return
    if metric.kind == "flow":
        yield from flow_scenarios(metric)
        return
    if metric.kind == "number":
        yield from number_scenarios(metric, upkeep=upkeep)
        return
    pool = values_of(metric)
    for periods in PERIODS:
        if metric.max_reports is None or periods <= metric.max_reports:
            yield memoised(metric, "encoder", disjoint(metric, pool), periods, noise=True)
    yield from _colliding(metric, pool)
    if metric.kind == "string":
        yield _odd(metric)
    if metric.kind == "discover":
        yield _alike(metric)
    periods = min(DEVICE_PERIODS, metric.max_reports or DEVICE_PERIODS)
    yield _ledger(metric, pool, periods)
    if metric.kind == "pair":
        yield from _in_turn(metric, pool)
    yield from _past_cap(metric, pool, "device", upkeep=upkeep)
    if metric.no_data is not None and upkeep and metric.period != "month":
        yield _no_data(metric, pool)


def values_of(metric: Metric) -> tuple[Value, ...]:
    """Values to record for a metric: all of its list, or strings, or numbers."""
    if metric.kind == "number":
        return numbers_of(metric)
    if metric.kind == "discover":
        return STARTS
    if metric.kind == "flow":
        return values_of_flow(metric.details)
    if metric.num_values is None:
        return POOL
    return tuple(cast(Value, value) for value in metric.rules.all_values(metric))


def disjoint(metric: Metric, pool: tuple[Value, ...]) -> tuple[Value, Value]:
    """The two of the pool with most bits that differ, over all cohorts."""
    cohorts = range(0, metric.params.num_cohorts, max(1, metric.params.num_cohorts // 64))
    bits = {value: [metric.value_bits(value, cohort) for cohort in cohorts] for value in pool[:16]}

    def apart(pair: tuple[Value, Value]) -> int:
        return sum((a ^ b).bit_count() for a, b in zip(bits[pair[0]], bits[pair[1]], strict=True))

    return max(combinations(bits, 2), key=apart)


def _ledger(metric: Metric, pool: tuple[Value, ...], periods: int) -> Scenario:
    """One value for all periods, recorded once more in each than a period has reports.

    Where a period has several, each is recorded once: its limit is not reached.
    """
    base = memoised(metric, "device", disjoint(metric, pool), periods, noise=periods > 1)
    base = replace(base, name="ledger")
    if metric.max_reports_per_period != 1:
        return base
    first, second = (tuple(step for step in world for _ in range(2)) for world in base.worlds)
    return replace(base, worlds=(first, second))


def _colliding(metric: Metric, pool: tuple[Value, ...]) -> Iterator[Scenario]:
    """Pairs of strings that share one bit of two or more in their cohort: a smaller claim."""
    params = metric.params
    if params.num_hashes < 2 or metric.num_values is not None:
        return
    pairs = [_shared_bit(metric, pool, cohort) for cohort in range(params.num_cohorts)]
    if any(pair is None for pair in pairs):
        return
    found = tuple(pair for pair in pairs if pair is not None)
    fewer = params.replace(num_hashes=params.num_hashes - 1)
    base = memoised(metric, "encoder", found[0], 1)
    yield replace(
        base,
        name="colliding values, 1 report",
        by_cohort=found,
        claim=fewer.epsilon_n(1),
    )


def _odd(metric: Metric) -> Scenario:
    """Two strings that are empty, long, or not of letters."""
    pairs: list[tuple[Value, Value]] = [ODD[c % len(ODD)] for c in range(metric.params.num_cohorts)]
    return replace(
        memoised(metric, "encoder", pairs[0], 1), name="odd strings, 1 report",
        by_cohort=tuple(pairs),
    )  # fmt: skip


def _alike(metric: Metric) -> Scenario:
    """Two strings that begin alike for longer than any group of cohorts reads: they look alike."""
    values = "a" * LONG + "1", "a" * LONG + "2"
    return replace(
        memoised(metric, "encoder", values, 1), name="strings that begin alike, 1 report", claim=0.0
    )


def _in_turn(metric: Metric, pool: tuple[Value, ...]) -> Iterator[Scenario]:
    """Both sides of a pair change in every period: two pairs are paid, and no more."""
    if (metric.max_reports or IN_TURN) < IN_TURN or metric.max_permanent_responses < 2:
        return
    pair = disjoint(metric, pool)
    days = start_days(metric, IN_TURN)
    worlds = tuple(tuple((d, pair[(i + w) % 2]) for i, d in enumerate(days)) for w in (0, 1))
    yield replace(
        memoised(metric, "device", pair, IN_TURN),
        name=f"two pairs in turn, {reports_text(IN_TURN)}", worlds=(worlds[0], worlds[1]),
        claim=2 * metric.params.epsilon_n(IN_TURN // 2), in_turn=True,
    )  # fmt: skip


def _shared_bit(metric: Metric, pool: tuple[Value, ...], cohort: int) -> tuple[Value, Value] | None:
    h = metric.params.num_hashes
    bits = [(value, metric.value_bits(value, cohort)) for value in pool]
    full = [(value, b) for value, b in bits if b.bit_count() == h]
    for (one, a), (other, b) in combinations(full, 2):
        if (a & b).bit_count() == 1:
            return one, other
    return None


def fillers(metric: Metric, pool: tuple[Value, ...], kept: int) -> list[Value] | None:
    """Values that fill the cap but for `kept` places; None where the cap cannot be reached."""
    if metric.fallback is None:
        return None
    if metric.num_values is not None and not metric.params.scheme.own_bits:
        return None  # two of few values may have the same bits, and share a place
    reserved = 1 + (metric.no_data is not None)
    number = metric.max_permanent_responses - reserved - kept
    total = number + kept + DEVICE_PERIODS
    if not 0 <= number <= MOST_FILLERS or (metric.max_reports or total) < total:
        return None
    others = free(metric, pool)
    found = list(others[len(others) - number :])
    return found if len(past_cap(metric, pool, found)) > 1 else None


def past_cap(metric: Metric, pool: tuple[Value, ...], recorded: list[Value]) -> tuple[Value, ...]:
    """Values of a pool that find no place in the cap once `recorded` have theirs, not even by
    equal bits."""
    always = [value for value in (metric.fallback, metric.no_data) if value is not None]
    cohorts = range(metric.params.num_cohorts)
    taken = [{metric.value_bits(v, c) for v in (*recorded, *always)} for c in cohorts]

    def has_place(value: Value) -> bool:
        return any(metric.value_bits(value, cohort) in taken[cohort] for cohort in cohorts)

    return tuple(value for value in free(metric, pool) if not has_place(value))


def free(metric: Metric, pool: tuple[Value, ...]) -> tuple[Value, ...]:
    """Values that are neither the fallback nor the one for no data."""
    return tuple(value for value in pool if value not in (metric.fallback, metric.no_data))


def _past_cap(
    metric: Metric, pool: tuple[Value, ...], box: Box, *, upkeep: bool
) -> Iterator[Scenario]:
    """Past the cap all values look alike; and the fallback is noised as any value is.

    Where the app's next version declares other chances there is no place for its fallback either,
    because the cap is of the name: the device is silent, whatever the value.
    """
    full, one_left = fillers(metric, pool, 0), fillers(metric, pool, 1)
    if full is None or one_left is None:
        return
    a, b = disjoint(metric, past_cap(metric, pool, full))
    assert metric.fallback is not None  # noqa: S101 (fillers asks for it)
    number = DEVICE_PERIODS
    days = start_days(metric, len(full) + number)
    first = tuple(zip(days, full, strict=False))
    rest = days[len(full) :]
    worlds = first + tuple((d, a) for d in rest), first + tuple((d, b) for d in rest)
    past = Scenario(
        f"values past the cap, {number} reports", metric.name, box, worlds, number,
        (a, b, metric.fallback), 0.0, expected=len(days),
    )  # fmt: skip
    yield past
    if upkeep:
        yield replace(
            past, name="values past the cap of the next version", renewed=len(first),
            expected=len(first),
        )  # fmt: skip
    filled = tuple(zip(days, [*one_left, a], strict=False))
    rest = days[len(filled) :]
    worlds = filled + tuple((d, a) for d in rest), filled + tuple((d, b) for d in rest)
    claim = metric.params.epsilon_n(len(rest))
    yield Scenario(
        f"a value or the fallback, {reports_text(len(rest))}", metric.name, box, worlds, len(rest),
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
        f"a value or no_data, {reports_text(number)}", metric.name, "device", worlds, number,
        (b, metric.no_data, a), claim, expected=number + 1,
    )  # fmt: skip
