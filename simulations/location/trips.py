"""Read trips of riders, and resample crowds from the days on which riders were active."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rappor_core.errors import ParameterError
from rappor_core.failures import failure_reason
from rappor_core.grid.grid import Grid
from simulations.location.fleet import Fix

Trips = dict[str, list[Fix]]

_FEWEST_DAYS = 5  # active days of a rider who is resampled


def read_trips(path: str | Path) -> Trips:
    """Read starts and ends by rider, in time order. Times in the file are UTC.

    Columns user_id, start_time, end_time, start_lat, start_lon, end_lat, end_lon.
    Raises ParameterError for a file without them.
    """
    opener = gzip.open if str(path).endswith(".gz") else open
    people: Trips = defaultdict(list)
    try:
        with opener(path, "rt", encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                for end in ("start", "end"):
                    at = datetime.fromisoformat(row[f"{end}_time"]).replace(tzinfo=UTC)
                    place = float(row[f"{end}_lat"]), float(row[f"{end}_lon"])
                    people[row["user_id"]].append(Fix(at, *place))
    except KeyError as error:
        raise ParameterError(f"{path}: not a file of trips: no column {error}") from error
    except (OSError, ValueError, TypeError, EOFError, csv.Error, zlib.error) as error:
        why = "a row is too short" if isinstance(error, TypeError) else failure_reason(error)
        raise ParameterError(f"{path}: not a file of trips: {why}") from error
    if not people:
        raise ParameterError(f"{path}: not a file of trips: it has no rows")
    return {rider: sorted(fixes, key=lambda fix: fix.at) for rider, fixes in people.items()}


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
    """Draw riders with replacement, each with its active days repeated cyclically: (people,
    days)."""
    lengths = np.array([len(row) for row in days])
    padded = np.zeros((len(days), lengths.max()), dtype=np.int64)
    for i, row in enumerate(days):
        padded[i, : len(row)] = [index[value] for value in row]
    riders = rng.integers(len(days), size=num_people)
    starts = rng.integers(lengths[riders])
    at = (starts[:, None] + np.arange(num_days)[None, :]) % lengths[riders][:, None]
    return np.asarray(padded[riders[:, None], at])
