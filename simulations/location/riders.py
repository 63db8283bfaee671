"""An experiment with real riders: each trip's start and end goes through the SDK, one device a
rider, a report a month."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from client_sdk.location.local_time import moment_of
from client_sdk.location.period_visits import Visits
from client_sdk.randomisation.key_derivation import new_secret
from client_sdk.randomisation.randomness import system_randomness
from decoder.density.maps import Density, DensityOptions, estimate_density
from rappor_core.errors import ParameterError
from rappor_core.metrics.file import MetricsFile
from rappor_core.metrics.metric import Metric
from simulations.location.allocations import NAME, Way, ways
from simulations.location.fleet import FleetResult, looks, run_fleet
from simulations.location.trips import Trips

Floats = NDArray[np.float64]

BUSIEST = 10


@dataclass(frozen=True)
class RealResult:
    """The errors of maps of the real riders for one way to spend the budget.

    tv: total variation distance to the true density.  tv_cells: of the cells, without `other`.
    busiest_found: of the ten busiest cells.  coverage: of the intervals of all cells, of those
    told from zero (None if none is), and of the ten busiest.
    spent_median, spent_most: nats, of devices.  memoised_most: the most answers that a device
    memoised.
    """

    way: str
    lifetime: float
    reports: int
    tv: float
    tv_cells: float
    busiest_found: float
    coverage: float
    coverage_found: float | None
    coverage_busiest: float
    spent_median: float
    spent_most: float
    memoised_most: int
    map: Density


def real_riders(
    people: Trips, way: Way, level: int, advance: Callable[[int], None] = lambda _: None
) -> RealResult:
    """Run a device for every rider through its trips, and compare the map with the truth.

    Raises ParameterError where no report was due.
    """
    metrics = way.metrics(level, "month")
    until = max(fix.at for fixes in people.values() for fix in fixes)
    until = _next_month(until)
    result = run_fleet(metrics, NAME, people, until, advance=advance)
    if not result.aggregates:
        raise ParameterError(
            f"{way.name}: no report was due from any of {len(people)} riders; take more of them"
        )
    one = estimate_density(result.aggregates, DensityOptions(repeats=result.repetition))
    truth = _true_shares(_every_period(metrics, level), people, until, one)
    return _judged(way, metrics, result, one, truth)


def _judged(
    way: Way, metrics: MetricsFile, result: FleetResult, one: Density, truth: Floats
) -> RealResult:
    busiest = np.argsort(-truth[:-1])[:BUSIEST]
    guessed = np.argsort(-one.shares[:-1])[:BUSIEST]
    inside = (one.low <= truth) & (truth <= one.high)
    return RealResult(
        way=way.name,
        lifetime=metrics.lifetime_epsilon,
        reports=result.num_reports,
        tv=total_variation(one.shares, truth),
        tv_cells=total_variation(over_cells(one.shares), over_cells(truth)),
        busiest_found=len(set(busiest) & set(guessed)) / BUSIEST,
        coverage=float(inside.mean()),
        coverage_found=float(inside[one.visible].mean()) if one.visible.any() else None,
        coverage_busiest=float(inside[busiest].mean()),
        spent_median=float(np.median(result.spent)),
        spent_most=float(result.spent.max()),
        memoised_most=int(result.memoised.max()),
        map=one,
    )


def _every_period(metrics: MetricsFile, level: int) -> tuple[Metric, ...]:
    """What to ask of a device to be told all that a way is a sample of."""
    parts = metrics.parts(NAME)
    sampled = parts[0].location is not None and parts[0].location.mode == "window"
    return ways(1.0, 2)[0].metrics(level, "month").parts(NAME) if sampled else parts


def _true_shares(parts: Sequence[Metric], people: Trips, until: datetime, one: Density) -> Floats:
    """Shares of what devices would report without cap and noise."""
    seen = Counter[str]()
    for fixes in people.values():
        visits = Visits(
            parts, new_secret(system_randomness), lambda _, v, __: seen.update([v]), None
        )
        for at, fix in looks(fixes, until):
            if fix is None:
                visits.roll(moment_of(at))
            else:
                visits.fix(fix.latitude, fix.longitude, moment_of(at))
    counts = np.array([seen[cell] for cell in one.cells], dtype=np.float64)
    return np.asarray(counts / counts.sum())


def _next_month(at: datetime) -> datetime:
    return at.replace(year=at.year + at.month // 12, month=at.month % 12 + 1, day=1)


def total_variation(one: Floats, other: Floats) -> float:
    """Half the sum of absolute differences: 0 for the same shares, 1 for disjoint ones."""
    return float(0.5 * np.abs(one - other).sum())


def over_cells(shares: Floats) -> Floats:
    """Shares among those who are in a cell, without the last value, `other`; sum 1."""
    return np.asarray(shares[:-1] / shares[:-1].sum())
