"""Where riders usually are: real trips through the device, and resampled crowds over many days.

Two experiments on one file of trips. `real_riders`: every trip's start and end goes through the
SDK, one device a rider, in time order, a report a month. `compare_budgets`: crowds resampled from
the riders' active days, a report a day, for ways to spend one lifetime budget.
"""

from __future__ import annotations

import csv
import gzip
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from client_sdk.identity import new_secret
from client_sdk.local_time import moment_of
from client_sdk.randomness import system_randomness
from client_sdk.visits import Visits
from decoder.density import Density, DensityOptions, density
from rappor_core.errors import ParameterError
from rappor_core.grid import Grid
from rappor_core.metrics import Metric
from rappor_core.metrics_file import MetricsFile, parse_metrics
from simulations.location_fleet import Fix, FleetResult, run_fleet

Floats = NDArray[np.float64]
Trips = dict[str, list[Fix]]

BUSIEST = 10
_FEWEST_DAYS = 5  # active days of a rider who is resampled

DECLARATION = """
[metrics.riders]
kind = "location"
description = "The usual place of a month"
owner = "simulation@example.org"
expires = 2099-12-31
grid = "quadkey"
box = [42.0, -72.8, 42.5, -72.4]
levels = [{level}]
period = "{period}"
"""


@dataclass(frozen=True)
class Way:
    """One way to spend a lifetime budget (nats): what is declared for it."""

    name: str
    keys: str

    def metrics(self, level: int, period: str) -> MetricsFile:
        """The metrics file of this way."""
        return parse_metrics(DECLARATION.format(level=level, period=period) + self.keys)


SECOND_DIAL = 0.9  # epsilon_one over epsilon_infinity: what is lost beside the permanent round
_FILTER = "num_bits = 32\nnum_cohorts = 64\n"


def ways(budget: float, num_periods: int) -> list[Way]:
    """Ways to spend a budget (nats) for life, over so many periods. A cap counts `other`."""
    window = max(num_periods, 2)
    return [
        _filters("l-osue", 2, budget),
        _filters("l-osue", 3, budget),
        _filters("l-osue", 4, budget),
        _filters("l-sue", 4, budget),
        Way(
            "memo, LOLOHA, 2 symbols",
            'mode = "memo"\nencoding = "symbol"\nnum_symbols = 2\nnum_cohorts = 64\n'
            + _dials(budget / 2),
        ),
        Way(
            "window",
            f'{_FILTER}mode = "window"\nwindow = {window}\nmax_reports = 1\nepsilon = {budget}\n',
        ),
        Way("once", f'{_FILTER}mode = "once"\nepsilon = {budget}\n'),
    ]


def _filters(mechanism: str, cap: int, budget: float) -> Way:
    keys = f'mode = "memo"\nmechanism = "{mechanism}"\nmax_memoized_values = {cap}\n'
    return Way(f"memo, {mechanism.upper()}, cap {cap}", _FILTER + keys + _dials(budget / cap))


def _dials(epsilon: float) -> str:
    return f"epsilon_infinity = {epsilon}\nepsilon_one = {SECOND_DIAL * epsilon}\n"


def read_trips(path: str | Path) -> Trips:
    """Read starts and ends by rider, in time order. Times in the file are UTC.

    Columns user_id, start_time, end_time, start_lat, start_lon, end_lat, end_lon.
    Raises ParameterError for a file without them.
    """
    opener = gzip.open if str(path).endswith(".gz") else open
    people: Trips = defaultdict(list)
    with opener(path, "rt", encoding="utf-8", newline="") as file:
        try:
            for row in csv.DictReader(file):
                for end in ("start", "end"):
                    at = datetime.fromisoformat(row[f"{end}_time"]).replace(tzinfo=UTC)
                    place = float(row[f"{end}_lat"]), float(row[f"{end}_lon"])
                    people[row["user_id"]].append(Fix(at, *place))
        except (KeyError, ValueError) as error:
            raise ParameterError(f"{path}: not a file of trips: {error}") from error
    return {rider: sorted(fixes, key=lambda fix: fix.at) for rider, fixes in people.items()}


@dataclass(frozen=True)
class RealResult:
    """What one way made of the real riders; the maps know how often devices reported.

    tv: total variation distance to the true density.  tv_cells: of the cells, without `other`.
    busiest_found: of the ten busiest cells.  coverage: of the cells' intervals.
    spent: nats, by device.  memoised: most answers of a device.
    """

    way: str
    lifetime: float
    reports: int
    tv: float
    tv_cells: float
    busiest_found: float
    coverage: float
    spent_median: float
    spent_most: float
    memoised_most: int
    map: Density


def real_riders(
    people: Trips, way: Way, level: int, advance: Callable[[int], None] = lambda _: None
) -> RealResult:
    """Let every rider's device live through its trips; compare the map with the truth."""
    metrics = way.metrics(level, "month")
    until = max(fix.at for fixes in people.values() for fix in fixes)
    until = _next_month(until)
    result = run_fleet(metrics, "riders", people, until, advance=advance)
    one = density(result.aggregates, DensityOptions(repeats=result.repetition))
    truth = _true_shares(metrics, people, until, one)
    return _judged(way, metrics, result, one, truth)


def _judged(
    way: Way, metrics: MetricsFile, result: FleetResult, one: Density, truth: Floats
) -> RealResult:
    busiest = np.argsort(-truth[:-1])[:BUSIEST]
    guessed = np.argsort(-one.shares[:-1])[:BUSIEST]
    return RealResult(
        way=way.name,
        lifetime=metrics.lifetime_epsilon,
        reports=result.num_reports,
        tv=total_variation(one.shares, truth),
        tv_cells=total_variation(over_cells(one.shares), over_cells(truth)),
        busiest_found=len(set(busiest) & set(guessed)) / BUSIEST,
        coverage=float(((one.low <= truth) & (truth <= one.high)).mean()),
        spent_median=float(np.median(result.spent)),
        spent_most=float(result.spent.max()),
        memoised_most=int(result.memoised.max()),
        map=one,
    )


def _true_shares(metrics: MetricsFile, people: Trips, until: datetime, one: Density) -> Floats:
    """Shares of what devices would report without cap and noise, in every period of each."""
    parts, seen = metrics.parts("riders"), Counter[str]()
    for fixes in people.values():
        visits = Visits(
            parts, new_secret(system_randomness), lambda _, v, __: seen.update([v]), None
        )
        for fix in fixes:
            visits.fix(fix.latitude, fix.longitude, moment_of(fix.at))
        visits.roll(moment_of(until))
    counts = np.array([seen[cell] for cell in one.cells], dtype=np.float64)
    return np.asarray(counts / counts.sum())


def _next_month(at: datetime) -> datetime:
    return at.replace(year=at.year + at.month // 12, month=at.month % 12 + 1, day=1)


def daily_places(people: Trips, grid: Grid, level: int) -> list[list[str]]:
    """The most visited cell of each active day, for riders with five active days or more."""
    found = []
    for fixes in people.values():
        days: dict[date, Counter[str]] = defaultdict(Counter)
        for fix in fixes:
            days[fix.at.date()][grid.place(fix.latitude, fix.longitude, level)] += 1
        if len(days) >= _FEWEST_DAYS:
            found.append([max(c, key=lambda v: (c[v], v)) for _, c in sorted(days.items())])
    if not found:
        raise ParameterError(
            f"no rider has {_FEWEST_DAYS} active days: there is nothing to resample"
        )
    return found


def resample(
    days: Sequence[Sequence[str]],
    index: Mapping[str, int],
    num_people: int,
    num_days: int,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Draw riders with replacement, and let each go around its active days: (people, days)."""
    lengths = np.array([len(row) for row in days])
    padded = np.zeros((len(days), lengths.max()), dtype=np.int64)
    for i, row in enumerate(days):
        padded[i, : len(row)] = [index[value] for value in row]
    riders = rng.integers(len(days), size=num_people)
    starts = rng.integers(lengths[riders])
    at = (starts[:, None] + np.arange(num_days)[None, :]) % lengths[riders][:, None]
    return np.asarray(padded[riders[:, None], at])


def total_variation(one: Floats, other: Floats) -> float:
    """Half the sum of absolute differences: 0 for the same shares, 1 for disjoint ones."""
    return float(0.5 * np.abs(one - other).sum())


def over_cells(shares: Floats) -> Floats:
    """Shares of the cells among those who are in one: without `other`, the last, of sum 1."""
    return np.asarray(shares[:-1] / shares[:-1].sum())


def metric_of(file: MetricsFile) -> Metric:
    """The one sub-metric of a file of this module."""
    (metric,) = file.parts("riders")
    return metric
