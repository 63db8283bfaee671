"""Scenarios for metrics of numbers, which are reported once a period after its end; no data is
an answer, too."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from privacy_audit.black_box.lives import NOTHING, Step, Value
from privacy_audit.black_box.scenario import (
    DEVICE_PERIODS,
    PERIODS,
    Scenario,
    memoised,
    reports_text,
    start_days,
)
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.number import Number

MOST_SPREAD = 40  # periods over which a device of mode `once` is watched
MOST_RECORDED = 40  # of one period, where a number is how often something was recorded
TWICE = ("mean", "median", "max", "last")  # the same number recorded again changes nothing
IN_TURN = 6  # reports, half of them of each number
CLEAR = 0.999999  # of a stratum's width: as far as a cut is ever moved


def numbers_of(metric: Metric) -> tuple[Value, ...]:
    """Numbers for the two sides of every cut, rising."""
    number: Number = metric.details
    edges = number.edges
    low = edges[0] - 1 if number.negative else 0.0
    middle = [float(math.floor((a + b) / 2)) if number.whole else (a + b) / 2
              for a, b in pairwise(edges)]  # fmt: skip
    high = float(math.ceil(edges[-1]) + 1)
    return tuple(dict.fromkeys((low, *middle, high)))


def within_a_stratum(metric: Metric) -> tuple[int, tuple[Value, Value], tuple[float, float]] | None:
    """For a metric whose devices move their cuts: two numbers that only the moved cut
    distinguishes.

    The index of their cut in `asked`, the numbers, and where in the stratum they are, from 0 to 1
    on its scale. None where the metric has none.
    """
    number: Number = metric.details
    if number.ask != "mean":
        return None
    edges = number.edges
    place = (len(edges) - 1) // 2
    low, high = edges[place], edges[place + 1]
    scale = math.log if number.scale == "log" else float
    back = math.exp if number.scale == "log" else float
    found = [back(scale(low) + part * (scale(high) - scale(low))) for part in (0.35, 0.65)]
    if number.whole:
        found = [float(math.ceil(x)) for x in found]
    if not low < found[0] < found[1] < high:
        return None
    parts = [(scale(x) - scale(low)) / (scale(high) - scale(low)) for x in found]
    return number.asked.index(low), (found[0], found[1]), (parts[0], parts[1])


def number_scenarios(metric: Metric, *, upkeep: bool) -> Iterator[Scenario]:
    """Yield all scenarios of a metric of numbers. upkeep: devices are tried, whose periods must
    be closed."""
    pool = numbers_of(metric)
    low, high = pool[0], pool[-1]
    for periods in PERIODS:
        if metric.max_reports is None or periods <= metric.max_reports:
            yield memoised(metric, "encoder", (high, low), periods, noise=True)
    no_data = replace(memoised(metric, "encoder", (high, None), 1), name="a number or no data")
    yield replace(no_data, name=f"{no_data.name}, {reports_text(1)}")
    yield from _same_side(metric, pool)
    if upkeep and not left_out_of_devices(metric):
        yield from _devices(metric)


def left_out_of_devices(metric: Metric) -> str:
    """The reason why scenarios with the ledger are not tried; "" if they are."""
    number: Number = metric.details
    if number.spread > MOST_SPREAD:
        return f"devices were not audited: they report once in {number.spread} periods"
    return "" if _extremes(metric) else "devices were not audited: they count to too large a number"


def _extremes(metric: Metric) -> tuple[Value, Value] | None:
    """The two numbers that devices record: of counts, how often; None is nothing."""
    pool = numbers_of(metric)
    if metric.details.of_period != "count":
        return pool[-1], pool[0]
    few = [edge for edge in metric.details.edges if 0 < edge <= MOST_RECORDED]
    return (few[-1], None) if few else None


def _same_side(metric: Metric, pool: tuple[Value, ...]) -> Iterator[Scenario]:
    """Two numbers between the same cuts, in each cohort: what does not cross a cut shows nothing.

    Between the same ones wherever the device has moved them.
    """
    number, symbols = metric.details, metric.params.num_bits
    pairs: list[tuple[Value, Value]] = []
    for cohort in range(metric.params.num_cohorts):
        pieces: dict[tuple[int, int], list[Value]] = {}
        for value in pool:
            ends = [number.symbol(value, cohort, symbols, moved) for moved in (0.0, CLEAR)]
            if ends[0] == ends[1]:
                pieces.setdefault((ends[0], ends[1]), []).append(value)
        widest = max(pieces.values(), key=len, default=[])
        if len(widest) < 2:
            return
        pairs.append((widest[0], widest[-1]))
    periods = min(DEVICE_PERIODS, metric.max_reports or DEVICE_PERIODS)
    base = memoised(metric, "encoder", pairs[0], periods)
    yield replace(
        base, name=f"numbers between the same cuts, {reports_text(periods)}",
        by_cohort=tuple(pairs), claim=0.0,
    )  # fmt: skip


def _devices(metric: Metric) -> Iterator[Scenario]:
    number, pair = metric.details, _extremes(metric)
    assert pair is not None  # noqa: S101 (`left_out_of_devices` asks)
    if number.mode == "once":
        days = start_days(metric, 2 * number.spread + 1)
        yield _life(metric, f"one answer in {2 * number.spread} periods", days, 1, pair)
        return
    days = start_days(metric, DEVICE_PERIODS + 1)
    number_of = reports_text(DEVICE_PERIODS)
    yield _life(metric, "ledger", days, DEVICE_PERIODS, pair)
    yield _life(metric, f"a number or no data, {number_of}", days, DEVICE_PERIODS, (pair[0], None))
    yield _in_turn(metric, pair)


def _life(
    metric: Metric, name: str, days: list[int], reports: int, pair: tuple[Value, Value]
) -> Scenario:
    """One number in all periods but the last day's, which closes the one before."""
    base = memoised(metric, "device", pair, reports)
    first, second = (_steps(metric, [(day, x) for day in days[:-1]], days[-1]) for x in pair)
    return replace(base, name=name, worlds=(first, second))


def _in_turn(metric: Metric, pair: tuple[Value, Value]) -> Scenario:
    """A number that crosses its cut in every period: both answers are paid, and no more."""
    days = start_days(metric, IN_TURN + 1)
    base = memoised(metric, "device", pair, IN_TURN)
    worlds = tuple(
        _steps(metric, [(d, pair[(i + w) % 2]) for i, d in enumerate(days[:-1])], days[-1])
        for w in (0, 1)
    )
    return replace(
        base, name=f"two numbers in turn, {reports_text(IN_TURN)}", worlds=(worlds[0], worlds[1]),
        claim=2 * metric.params.epsilon_n(IN_TURN // 2), in_turn=True,
    )  # fmt: skip


def _steps(metric: Metric, days: list[tuple[int, Value]], last: int) -> tuple[Step, ...]:
    """What is recorded: a count as often as it says, a number that may be repeated twice."""
    found: list[Step] = []
    of_period = metric.details.of_period
    for day, value in days:
        if value is None:
            found.append((day, NOTHING))
        elif of_period == "count":
            found += [(day, 1.0)] * int(value)  # type: ignore[arg-type]
        else:
            found += [(day, value)] * (2 if of_period in TWICE else 1)
    return (*found, (last, NOTHING))
