"""Which mode makes the best map of a period from a budget: tried on cities that nobody lives in.

The declared grid is kept; where people are is drawn (`city`), so the advice depends on no data.
Each mode is decoded as `rappor density` would, and judged over the cells alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from decoder.errors import DecodeError
from decoder.field import fit_field
from decoder.places import Places, places_of
from decoder.readings import read_aggregate
from rappor_core.metrics import Metric
from rappor_core.metrics_file import MetricsFile
from rappor_core.metrics_groups import cohorts_affordable
from rappor_core.metrics_location import Location
from rappor_core.metrics_review import CROWD, Finding
from rappor_core.params import RapporParams
from simulations.draws import draw_aggregate
from simulations.geo_noise import centres_in_metres
from simulations.location_ways import modes_to_try
from simulations.trackability import PERIODS_A_YEAR

Floats = NDArray[np.float64]

CITIES = 8  # each mode is tried on so many: maps of one mode differ by a third
MOST_CELLS = 1_200  # a map of more takes too long to try several
CLEARLY = 1.1  # times the error of the best mode
WORTHLESS = 0.9  # of the error of a flat map
HOME, SECOND = 0.6, 0.25  # of a person's periods at two places; the others are at a new place each
_OUTSIDE = 0.1  # share of `other` in a city
_ROUGH = 1.0  # standard deviation of log shares about a smooth city
_PEOPLE = 2_000  # of whom what a cap admits is counted
_MOST_PERIODS = 400


@dataclass(frozen=True)
class Choice:
    """A mode and what it makes of a budget.

    error: total variation distance of a period's map over the cells, mean of some cities.
    mode, keys: what it is called, and what is declared for it.
    """

    mode: str
    keys: str
    error: float


def city(places: Places, rng: np.random.Generator) -> Floats:
    """Shares of a made-up city: some centres of unlike weight, rough within, `other` the last."""
    centres = centres_in_metres(places)
    size = np.sqrt(np.ptp(centres[:, 0]) * np.ptp(centres[:, 1])) or 1.0
    shares = np.zeros(len(centres))
    for weight in 1 / np.arange(1, 7):
        middle = centres[rng.integers(len(centres))]
        reach = size * rng.uniform(0.03, 0.12)
        near = np.exp(-np.linalg.norm(centres - middle, axis=1) / reach)
        shares += weight * near / near.sum()
    shares *= np.exp(rng.normal(0, _ROUGH, len(centres)))
    return np.append((1 - _OUTSIDE) * shares / shares.sum(), _OUTSIDE)


def admitted(cap: int, periods: int, rng: np.random.Generator) -> float:
    """Share of answers that are within a cap, `other` among it, over so many periods.

    People are at one place in HOME of the periods, at another in SECOND, else at a new one.
    """
    periods = min(periods, _MOST_PERIODS)
    draws = rng.random((_PEOPLE, periods))
    kinds = np.where(draws < HOME, 0, np.where(draws < HOME + SECOND, 1, 2))
    within = 0
    for row in kinds:
        known: set[int] = set()
        for period, kind in enumerate(row):
            place = int(kind) if kind < 2 else 2 + period
            if place in known or len(known) < cap - 1:
                known.add(place)
                within += 1
    return within / draws.size


def compare_modes(
    places: Places,
    devices: int,
    periods: int,
    budget: float,
    num_cohorts: int,
    rng: np.random.Generator,
    cities: Sequence[Floats] | None = None,
) -> list[Choice]:
    """Every mode that could spend a budget over some periods, the best first.

    devices: that answer about these places.  periods: to be mapped, one by one.
    budget: nats, for life.  cities: shares (M,), `other` the last; drawn where not given.
    """
    if cities is None:
        cities = [city(places, rng) for _ in range(CITIES)]
    found = []
    for way, window, cap in modes_to_try(budget, periods, num_cohorts):
        params = way.metric(12, "day").params
        kept = 1.0 if cap is None else admitted(cap, periods, rng)
        errors = [map_error(places, one, devices // window, params, kept, rng) for one in cities]
        found.append(Choice(way.name, way.keys, float(np.mean(errors))))
    return sorted(found, key=lambda choice: choice.error)


def map_error(
    places: Places,
    shares: Floats,
    reports: int,
    params: RapporParams,
    kept: float,
    rng: np.random.Generator,
) -> float:
    """Total variation over the cells of one map. kept: share of answers that are not capped."""
    sent = kept * shares
    sent[-1] += 1 - kept
    aggregate, _ = draw_aggregate(list(places.finest), sent, max(reports, 1), params, rng)
    with threadpool_limits(1):
        reading = read_aggregate(aggregate, places.design(len(places.levels) - 1, params), 1.0)
        try:
            found = fit_field([reading], places.laplacian).shares[:-1]
        except DecodeError:
            return 1.0
    truth = shares[:-1]
    return float(0.5 * np.abs(found / found.sum() - truth / truth.sum()).sum())


def flat_error(cities: Sequence[Floats]) -> float:
    """The same of a map on which all cells are alike: what costs nothing."""
    return float(np.mean([_flat(one[:-1] / one[:-1].sum()) for one in cities]))


def _flat(truth: Floats) -> float:
    return float(0.5 * np.abs(truth - 1 / len(truth)).sum())


def mode_findings(
    file: MetricsFile, population: int, rng: np.random.Generator, cities: int = CITIES
) -> Iterator[Finding]:
    """Name the best mode for each location metric; warn where another makes far better maps.

    The declared budget for life is kept, and so is the number of periods: a year's, or those that
    the turns of a declared window reach. population: devices expected to report.
    """
    for metric in file.declared:
        location = metric.location
        if location is None or location.pairs or location.mode == "once":
            continue
        if (cells := location.grid.num_cells(location.grid.finest)) > MOST_CELLS:
            message = (
                f"modes were not tried: {cells:,} cells take minutes; try a coarser level, of "
                f"{MOST_CELLS:,} cells or fewer"
            )
            yield Finding("note", metric.base_name, message)
            continue
        yield _finding(metric, population, rng, cities)


def _finding(metric: Metric, population: int, rng: np.random.Generator, cities: int) -> Finding:
    location = metric.location
    assert location is not None  # noqa: S101 (of location metrics alone)
    places = places_of([_at_finest(location)])
    drawn = [city(places, rng) for _ in range(cities)]
    answers = mapped_periods(metric) * len(location.slots)
    devices = max(1, population // len(location.grid.levels))
    most = max(metric.params.num_cohorts, cohorts_affordable(CROWD, devices))
    choices = compare_modes(
        places, devices, answers, metric.lifetime_epsilon, most, rng, cities=drawn
    )
    capped = location.mode == "memo" and metric.params.encoding != "symbol"
    kept = admitted(metric.max_memoized_values, answers, rng) if capped else 1.0
    reports = devices // location.num_turns
    own = [map_error(places, one, reports, metric.params, kept, rng) for one in drawn]
    return _judged(metric, choices[0], float(np.mean(own)), flat_error(drawn), answers, devices)


def _judged(
    metric: Metric, best: Choice, own: float, flat: float, answers: int, devices: int
) -> Finding:
    worse = own > CLEARLY * best.error
    asked = (
        f"for {answers:,} maps from {devices:,} devices and {metric.lifetime_epsilon:.2f} nats, on "
        f"made-up cities, '{best.mode}' comes closest (total variation {best.error:.2f}, a flat "
        f"map {flat:.2f})"
    )
    if own > WORTHLESS * flat:
        asked += f"; what is declared comes to {own:.2f}: hardly better than a flat map"
    else:
        asked += f"; what is declared comes to {own:.2f}"
    if worse:
        asked += f"; declare {', '.join(best.keys.split(chr(10))).rstrip(', ')}"
    if best.error > WORTHLESS * flat:
        asked += "; no mode makes a map of so many cells: use a coarser level or fewer periods"
    level: Literal["note", "warning"] = "warning" if worse or own > WORTHLESS * flat else "note"
    return Finding(level, metric.base_name, asked)


def mapped_periods(metric: Metric) -> int:
    """How many periods its budget pays for: a year's, or those of the reports of its window."""
    location = metric.location
    if location is not None and location.mode == "window":
        return location.window * (metric.max_reports or 1)
    return PERIODS_A_YEAR[metric.period]


def _at_finest(location: Location) -> Location:
    finest = location.grid.finest
    grid = location.grid.replace(levels=(finest,))
    return location.replace(grid=grid, level=finest)
