"""An experiment: one lifetime budget, spent in different ways over many days by a resampled
crowd."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from datetime import date, timedelta

import numpy as np
from numpy.typing import NDArray

from decoder.density.cells import Places, places_of
from decoder.density.field_prior import Belief
from decoder.density.gaussian_field import fit_field
from decoder.density.slots import slot_readings
from decoder.numerics.threads import one_thread
from privacy_audit.location_attacks import AttackResult
from privacy_audit.trackability import CROWD, PERIODS, attacks_on
from rappor_core.metrics.metric import Metric
from simulations.location.allocations import Way, splitting, ways
from simulations.location.draws import capped, draw_memo, draw_window
from simulations.location.riders import over_cells, total_variation
from simulations.location.trips import Trips, daily_places, resample

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
FIRST_DAY = date(2026, 1, 1)
_JUDGED_DAYS = 10  # maps are made of so many days, evenly spread
_BELIEF = Belief("neighbours", 0.05)


@dataclass(frozen=True)
class Errors:
    """Total variation distances of one crowd, means over the compared days.

    cells: of the map to that day's true density, of the cells among those who are in one.
    all: the same with `other` as a cell more.
    capping, capping_cells: both, of what devices would say without noise, in place of the map; no
    estimator undoes it.  noise: of the map to what devices would say, with `other`.
    """

    cells: float
    all: float
    capping: float
    capping_cells: float
    noise: float

    @classmethod
    def mean(cls, several: Sequence[Errors]) -> Errors:
        """The mean of errors over days."""
        table = np.array([astuple(one) for one in several])
        return cls(*map(float, table.mean(axis=0)))


@dataclass(frozen=True)
class BudgetResult:
    """The errors and privacy of one way to spend a budget.

    lifetime: nats.
    spread: least and most of `errors.cells` over the crowds, where the errors are medians.
    attacks: after 1, 7 and 30 days, on devices of one cohort; None where there are no cohorts.
    """

    way: str
    people: int
    days: int
    lifetime: float
    errors: Errors
    spread: tuple[float, float] | None = None
    attacks: list[AttackResult] | None = None


@dataclass(frozen=True)
class LocatedPeople:
    """People and their places over time. values: (n, T), indices into the places' finest level."""

    values: Integers
    places: Places

    @property
    def judged(self) -> list[int]:
        """The days whose maps are compared with the truth."""
        last = self.values.shape[1] - 1
        return [int(day) for day in np.unique(np.linspace(0, last, _JUDGED_DAYS).astype(int))]

    def shares(self, values: Integers, day: int) -> Floats:
        """True shares of the cells on a day, (M,)."""
        return np.bincount(values[:, day], minlength=len(self.places.finest)) / len(values)

    def errors(self, shares: Floats, sent: Integers, day: int) -> Errors:
        """Compare a map of a day with the truth. sent: the values that devices encoded, (n, T)."""
        truth, told = self.shares(self.values, day), self.shares(sent, day)
        return Errors(
            cells=total_variation(over_cells(shares), over_cells(truth)),
            all=total_variation(shares, truth),
            capping=total_variation(told, truth),
            capping_cells=total_variation(over_cells(told), over_cells(truth)),
            noise=total_variation(shares, told),
        )


def compare_budgets(
    people: Trips,
    budget: float,
    num_people: int,
    num_days: int,
    level: int,
    rng: np.random.Generator,
) -> list[BudgetResult]:
    """Draw one crowd and map it by every way to spend the budget, and by published rivals."""
    choices = [way for way in ways(budget, num_days) if way.name != "once"]  # it has no days
    choices.append(splitting(budget, num_days))
    location = choices[0].metric(level, "day").location
    places = places_of([location] if location else [])
    index = {value: i for i, value in enumerate(places.finest)}
    days = daily_places(people, places.grid, level)
    crowd = LocatedPeople(resample(days, index, num_people, num_days, rng), places)
    results = [_one_way(way, way.metric(level, "day"), crowd, rng) for way in choices]
    return [*results, _flat(crowd)]


def with_attacks(
    results: list[BudgetResult],
    budget: float,
    level: int,
    rng: np.random.Generator,
    crowd: int = CROWD,
) -> list[BudgetResult]:
    """Add what devices of one cohort leave to an observer, once for each way and time."""
    found: dict[tuple[str, int], list[AttackResult]] = {}
    for number in sorted({result.days for result in results}):
        for way in ways(budget, number):
            metric = way.metric(level, "day")
            found[way.name, number] = attacks_on(metric, PERIODS, crowd, rng)
    return [replace(one, attacks=found.get((one.way, one.days))) for one in results]


def median(several: Sequence[BudgetResult]) -> BudgetResult:
    """The median of each error over crowds that were drawn alike."""
    table = np.array([astuple(one.errors) for one in several])
    spread = float(table[:, 0].min()), float(table[:, 0].max())
    errors = Errors(*map(float, np.median(table, axis=0)))
    return replace(several[0], errors=errors, spread=spread)


def _one_way(
    way: Way, metric: Metric, crowd: LocatedPeople, rng: np.random.Generator
) -> BudgetResult:
    location, places = metric.location, crowd.places
    assert location is not None  # noqa: S101 (made above)
    num_people, num_days = crowd.values.shape
    split, sent = location.mode == "once", crowd.values
    if location.mode == "memo":
        if not metric.params.scheme.symbols:  # with g symbols all places fit in the cap
            sent = capped(sent, metric.max_memoized_values, len(places.finest) - 1)
        counts = draw_memo(sent, places.finest, metric.params, rng)
    else:
        window = 1 if split else location.window
        counts = draw_window(sent, places.finest, metric.params, window, rng)
    daily = []
    for day in crowd.judged:
        at = FIRST_DAY + timedelta(days=day)
        seen = counts.aggregate(metric, slice(day, day + 1), at, at)
        with one_thread():
            readings = slot_readings([seen], places, 1.0)
            field = fit_field(readings, places.laplacian, _BELIEF, reserved=len(places.reserved))
        daily.append(crowd.errors(field.shares, sent, day))
    lifetime = metric.lifetime_epsilon * (num_days if split else 1)
    return BudgetResult(way.name, num_people, num_days, lifetime, Errors.mean(daily))


def _flat(crowd: LocatedPeople) -> BudgetResult:
    """All cells alike: what is known without asking anybody."""
    flat = np.append(np.ones(len(crowd.places.finest) - 1), 0.0)
    daily = [crowd.errors(flat / flat.sum(), crowd.values, day) for day in crowd.judged]
    num_people, num_days = crowd.values.shape
    return BudgetResult("a flat map", num_people, num_days, 0.0, Errors.mean(daily))
