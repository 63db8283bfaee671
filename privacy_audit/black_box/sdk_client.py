"""The SDK of this project under audit, in memory: `Encoder`, and `Recorder` over a kept state.

Opened again between reports: a fresh `Encoder` or `Recorder` (and `LocationRecorder`) over
the same secret and the same stored state. Reports are read from the bytes of a binary batch.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime

from client_sdk.location.recorder import LocationRecorder
from client_sdk.randomisation.encoder import Encoder
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.memory import MemoryState
from privacy_audit.black_box.lives import NOTHING, Derived, Life, Seen, Value
from rappor_core.calendar import SECONDS_A_DAY, date_of, day_of
from rappor_core.metrics.loading import MetricsFile
from rappor_core.metrics.validation import APP
from rappor_core.wire.binary import encode_binary
from rappor_core.wire.decode import decode_batch
from rappor_core.wire.report import BINARY_CONTENT_TYPE, MAX_REPORTS, Report, make_batch

NOON = SECONDS_A_DAY // 2


class SdkClient:
    """Devices of `client_sdk`, in this process."""

    def __init__(self, file: MetricsFile) -> None:
        """file: the declared metrics."""
        self._file = file
        self._places = {m.base_name for m in file.declared if m.location is not None}

    def encode(self, metric: str, lives: list[Life], together: int = 1) -> list[list[Seen]]:
        """See `AuditedClient`. All devices' first reports, then all second ones, and so on."""
        metrics = self._file.metrics
        found: list[list[Seen]] = [[] for _ in lives]
        encoders: list[Encoder] = []
        for number in range(max((len(life.steps) for life in lives), default=0)):
            if number % together == 0:
                encoders = [Encoder(metrics, life.secret) for life in lives]
            alive = [row for row, life in enumerate(lives) if number < len(life.steps)]
            reports = []
            for row in alive:
                day, value = lives[row].steps[number]
                reports.append(encoders[row].encode(metric, value, date_of(day)))
            for row, seen in zip(alive, over_the_wire(reports), strict=True):
                found[row].append(seen)
        return found

    def record(self, metric: str, lives: list[Life]) -> list[list[Seen]]:
        """See `AuditedClient`."""
        reports: list[Report] = []
        counts = []
        for secret, steps in lives:
            state = MemoryState(secret)
            for day, value in steps:
                self._step(state, metric, day, value)
            taken = state.take_reports()
            counts.append(len(taken))
            reports += taken
        return _regrouped(reports, counts)

    def _step(self, state: MemoryState, metric: str, day: int, value: Value) -> None:
        now = float(day * SECONDS_A_DAY + NOON)
        parts = [m for m in self._file.metrics.values() if metric in (m.name, m.base_name)]
        platform = (
            parts[0].platforms[0] if parts else APP
        )  # the audit is of each platform's metrics
        recorder = Recorder(self._file.metrics, state, budget=self._file.budget, platform=platform)
        if isinstance(value, tuple):
            places = LocationRecorder(self._file, state, recorder)
            _stay(places, metric, day, value)
            places.save()
        elif metric in self._places:
            LocationRecorder(self._file, state, recorder).roll(datetime.fromtimestamp(now, UTC))
        else:
            recorder.fill_periods(now)
            if value != NOTHING:
                recorder.record(metric, value, now)

    def derive(self, metric: str, asked: list[tuple[bytes, Value]]) -> list[Derived]:
        """See `AuditedClient`."""
        return [derived(self._file, metric, secret, value) for secret, value in asked]

    def close(self) -> None:
        """Nothing was started."""


def derived(file: MetricsFile, metric: str, secret: bytes, value: Value) -> Derived:
    """What a device of this SDK, opened for this question alone, derives."""
    device = Encoder(file.metrics, secret).metric(metric)
    bits = device.value_bits(value)
    return Derived(device.cohort, bits, device.permanent_bits(bits))


def _stay(places: LocationRecorder, metric: str, day: int, value: tuple[float, float]) -> None:
    """A fix every hour of a day at one place, by a phone that shows UTC."""
    for hour in range(24):
        at = datetime.fromtimestamp(day * SECONDS_A_DAY + 3600 * hour, UTC)
        places.fix(metric, *value, at)


def over_the_wire(reports: list[Report]) -> list[Seen]:
    """The reports, in order, as a collector reads them from the bytes of binary batches."""
    seen: list[Seen] = []
    for start in range(0, len(reports), MAX_REPORTS):
        body = encode_binary(make_batch(os.urandom(16), reports[start : start + MAX_REPORTS]))
        for group in decode_batch(body, BINARY_CONTENT_TYPE).groups:
            day = day_of(group.day)
            seen += [Seen(group.metric, cohort, day, bits) for cohort, bits in group.rows]
    return seen


def _regrouped(reports: list[Report], counts: list[int]) -> list[list[Seen]]:
    seen, found, start = over_the_wire(reports), [], 0
    for count in counts:
        found.append(seen[start : start + count])
        start += count
    return found
