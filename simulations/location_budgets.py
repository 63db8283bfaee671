"""One lifetime budget, spent in different ways over many days by a resampled crowd."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
from numpy.typing import NDArray

from decoder.density import map_shares
from decoder.field import USUAL_STRENGTH, Belief
from decoder.places import Places, places_of
from rappor_core.aggregate import Aggregate
from rappor_core.metrics import Metric
from simulations.location import (
    Trips,
    Way,
    daily_places,
    metric_of,
    resample,
    total_variation,
    ways,
)
from simulations.location_attacks import AttackResult
from simulations.location_draws import PeriodCounts, capped, draw_memo, draw_window
from simulations.trackability import CROWD, PERIODS, attacks_on

Floats = NDArray[np.float64]
FIRST_DAY = date(2026, 1, 1)
_JUDGED_DAYS = 10  # maps are made of so many days, evenly spread


@dataclass(frozen=True)
class BudgetResult:
    """What one way made of a budget. tv: mean over days of the distance to that day's density.

    attacks: after 1, 7 and 30 days, on devices of one cohort; None where there is one report.
    """

    way: str
    people: int
    days: int
    cells: int
    lifetime: float
    epsilon_one: float
    tv: float
    attacks: list[AttackResult] | None


def compare_budgets(
    people: Trips,
    budget: float,
    num_people: int,
    num_days: int,
    level: int,
    rng: np.random.Generator,
    advance: Callable[[int], None] = lambda _: None,
    crowd: int = CROWD,
) -> list[BudgetResult]:
    """Draw one crowd, and let it report in every way; splitting over time is the last.

    crowd: devices of one cohort that are attacked.
    """
    choices = [*ways(budget, num_days), splitting(budget, num_days)]
    places = _places(choices[0].metrics(level, "day").parts("riders")[0])
    index = {value: i for i, value in enumerate(places.finest)}
    days = daily_places(people, places.grid, level)
    values = resample(days, index, num_people, num_days, rng)
    results = []
    for way in choices:
        if way.name == "once":
            continue  # one static question has no days
        metric = metric_of(way.metrics(level, "day"))
        results.append(_one_way(way, metric, values, places, rng, crowd))
        advance(1)
    return results


def splitting(budget: float, num_days: int) -> Way:
    """A fresh report every day, each with its part of the budget: what memoisation replaces.

    Declared as `once`, for its one-shot mechanism; the crowd reports every day all the same.
    """
    keys = f'mode = "once"\nepsilon = {budget / num_days}\nnum_bits = 32\nnum_cohorts = 64\n'
    return Way("splitting over time", keys)


def _one_way(
    way: Way,
    metric: Metric,
    values: NDArray[np.int64],
    places: Places,
    rng: np.random.Generator,
    crowd: int,
) -> BudgetResult:
    location = metric.location
    assert location is not None  # noqa: S101 (made above)
    num_people, num_days = values.shape
    split = way.name.startswith("splitting")
    if location.mode == "memo":
        sent = values
        if metric.params.encoding != "symbol":  # with g symbols all places fit in the cap
            sent = capped(values, metric.max_memoized_values, len(places.finest) - 1)
        counts = draw_memo(sent, places.finest, metric.params, rng)
    else:
        window = 1 if split else location.window
        counts = draw_window(values, places.finest, metric.params, window, rng)
    attacks = None
    if not split:
        attacks = attacks_on(metric, PERIODS, crowd, rng)
    return BudgetResult(
        way=way.name,
        people=num_people,
        days=num_days,
        cells=len(places.finest),
        lifetime=metric.lifetime_epsilon * (num_days if split else 1),
        epsilon_one=metric.epsilon_one,
        tv=_mean_distance(metric, counts, values, places),
        attacks=attacks,
    )


def _mean_distance(
    metric: Metric, counts: PeriodCounts, values: NDArray[np.int64], places: Places
) -> float:
    num_days = values.shape[1]
    judged = np.unique(np.linspace(0, num_days - 1, _JUDGED_DAYS).astype(int))
    distances = []
    for day in judged:
        truth = np.bincount(values[:, day], minlength=len(places.finest)) / len(values)
        shares = map_shares([_aggregate(metric, counts, int(day))], places,
                            Belief("neighbours", USUAL_STRENGTH), 1.0)  # fmt: skip
        distances.append(total_variation(shares, truth))
    return float(np.mean(distances))


def _aggregate(metric: Metric, counts: PeriodCounts, day: int) -> Aggregate:
    at = FIRST_DAY + timedelta(days=day)
    return Aggregate(
        metric=metric.name,
        params=metric.params,
        reports_per_cohort=tuple(counts.reports[day].tolist()),
        bit_counts=tuple(map(tuple, counts.bits[day].tolist())),
        params_id=metric.params_id,
        first_day=at,
        last_day=at,
        definition=metric.to_dict(),
    )


def _places(metric: Metric) -> Places:
    return places_of([metric.location] if metric.location else [])
