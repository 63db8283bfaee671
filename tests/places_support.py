"""Devices of people who move, but for files, threads and the network; their reports as counts."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from client_sdk.location.recorder import LocationRecorder
from client_sdk.randomization.key_derivation import Randomness, new_secret, system_randomness
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.sqlite import MemoryState
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.wire.report import Report

Counts = NDArray[np.int64]

_WEEKS_ON = 5


@dataclass(frozen=True)
class Fix:
    """A position of a person at a time. at: with a time zone."""

    at: datetime
    latitude: float
    longitude: float


@dataclass
class LocationCounts:
    """Counts of one sub-metric, as a collector keeps them."""

    metric: Metric
    reports: Counts = field(init=False)
    bits: Counts = field(init=False)
    first: date | None = None
    last: date | None = None

    def __post_init__(self) -> None:
        params = self.metric.params
        self.reports = np.zeros(params.num_cohorts, dtype=np.int64)
        self.bits = np.zeros((params.num_cohorts, params.num_bits), dtype=np.int64)

    def add(self, report: Report) -> None:
        row = np.frombuffer(report.bits, dtype=np.uint8)
        bits = np.unpackbits(row, bitorder="little")[: self.metric.params.num_bits]
        self.reports[report.cohort] += 1
        self.bits[report.cohort] += bits
        self.first = min(self.first or report.day, report.day)
        self.last = max(self.last or report.day, report.day)

    def aggregate(self) -> Aggregate:
        return Aggregate(
            metric=self.metric.name,
            params=self.metric.params,
            reports_per_cohort=tuple(self.reports.tolist()),
            bit_counts=tuple(map(tuple, self.bits.tolist())),
            params_id=self.metric.params_id,
            first_day=self.first,
            last_day=self.last,
            definition=self.metric.to_dict(),
        )


def looks(fixes: Iterable[Fix], until: datetime) -> Iterator[tuple[datetime, Fix | None]]:
    """Yield fixes in order, and times without a fix, every week, at which the device looks."""
    last: datetime | None = None
    for fix in (*fixes, None):
        at = until if fix is None else fix.at
        for week in range(1, _WEEKS_ON + 1):
            if last is not None and last + timedelta(weeks=week) < at:
                yield last + timedelta(weeks=week), None
        yield at, fix
        last = at


class LocationDevice:
    def __init__(self, metrics: MetricsFile, randomness: Randomness = system_randomness) -> None:
        self._state = MemoryState(new_secret(randomness))
        self._recorder = Recorder(
            metrics.metrics, self._state, budget=metrics.budget, randomness=randomness
        )
        self._places = LocationRecorder(metrics, self._state, self._recorder, lambda: 0.0)

    def live(self, name: str, fixes: Iterable[Fix], until: datetime) -> list[Report]:
        """Record the fixes in order and close what is over at `until`; the reports made."""
        for at, seen in looks(fixes, until):
            if seen is None:
                self._places.roll(at)
            else:
                fix(self._places, name, seen.latitude, seen.longitude, at)
        return self._state.take_reports()


def fix(
    places: LocationRecorder,
    name: str,
    latitude: float,
    longitude: float,
    at: datetime | None,
    now: float | None = None,
) -> str | None:
    """Take a fix as a session does; now: of the device's clock, None: the time of the fix."""
    return places.take(name, ((latitude, longitude),), *places.times(at, now))
