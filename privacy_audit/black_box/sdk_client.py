"""The SDK of this project under audit, in memory: `Encoder`, and `Recorder` over a kept state.

Opened again between reports: a fresh `Encoder` or `Recorder` (and `LocationRecorder`) over
the same secret and the same stored state. Reports are read from the bytes of a binary batch.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from itertools import accumulate, pairwise

from client_sdk.location.recorder import LocationRecorder
from client_sdk.numbers import NumberRecorder
from client_sdk.randomisation.encoder import Encoder
from client_sdk.recording.bounds import PrivacyLevel
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.memory import MemoryState
from privacy_audit.black_box.asked_places import asked_of_fixes
from privacy_audit.black_box.lives import (
    NOTHING,
    Derived,
    Life,
    SeenReport,
    Step,
    Value,
    WholeLife,
    time_of,
)
from rappor_core.calendar import SECONDS_A_DAY, date_of, day_of
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.metrics.validation import APP
from rappor_core.wire.binary import encode_binary
from rappor_core.wire.json import decode_batch
from rappor_core.wire.report import BINARY_CONTENT_TYPE, MAX_REPORTS, Report, make_batch


class SdkClient:
    """The audited client that runs `client_sdk` in this process."""

    def __init__(self, file: MetricsFile, level: PrivacyLevel | None = None) -> None:
        """file: the declared metrics.  level: the person's choice."""
        self._file = file
        self._level = level
        asked = {m.base_name: asked_of_fixes(m) for m in file.declared}
        self._hours = {
            name: sorted({slot.first for slot in places.slots} | {12})
            for name, places in asked.items()
            if places is not None
        }
        self._numbers = {m.name for m in file.declared if m.rules.collected}

    def encode(self, metric: str, lives: list[Life], together: int = 1) -> list[list[SeenReport]]:
        """Encode values: all devices' first reports, then all second ones, and so on."""
        metrics = self._file.metrics
        dates = {day: date_of(day) for day in {day for life in lives for day, _ in life.steps}}
        found: list[list[SeenReport]] = [[] for _ in lives]
        encoders: list[Encoder] = []
        for number in range(max((len(life.steps) for life in lives), default=0)):
            if number % together == 0:
                encoders = [Encoder(metrics, life.secret) for life in lives]
            alive = [row for row, life in enumerate(lives) if number < len(life.steps)]
            reports = []
            for row in alive:
                day, value = lives[row].steps[number]
                reports.append(encoders[row].encode(metric, value, dates[day]))
            for row, seen in zip(alive, over_the_wire(reports), strict=True):
                found[row].append(seen)
        return found

    def record(self, metric: str, lives: list[Life], renewed: int = 0) -> list[list[SeenReport]]:
        """Run devices with this SDK's recorder through their lives; return all reports that each
        queued, in order."""
        reports: list[Report] = []
        counts = []
        later = SdkClient(next_version(self._file, metric)) if renewed else self
        for secret, steps in lives:
            state = MemoryState(secret)
            for number, (day, value) in enumerate(steps):
                (later if renewed and number >= renewed else self)._step(state, metric, day, value)
            taken = state.take_reports()
            counts.append(len(taken))
            reports += taken
        return _regrouped(reports, counts)

    def live(
        self, lives: list[WholeLife], versions: tuple[MetricsFile, ...] = ()
    ) -> list[list[SeenReport]]:
        """Run devices of several metrics and app versions through their lives; return their
        reports, in order."""
        clients = [self, *(SdkClient(file, self._level) for file in versions)]
        reports: list[Report] = []
        counts = []
        for secret, events in lives:
            state = MemoryState(secret)
            for metric, day, value, version in events:
                clients[version]._step(state, metric, day, value)
            taken = state.take_reports()
            counts.append(len(taken))
            reports += taken
        return _regrouped(reports, counts)

    def _step(self, state: MemoryState, metric: str, day: int, value: Value) -> None:
        now = time_of(day)
        parts = [m for m in self._file.metrics.values() if metric in (m.name, m.base_name)]
        platform = (
            parts[0].platforms[0] if parts else APP
        )  # the audit is of each platform's metrics
        recorder = Recorder(
            self._file.metrics, state, budget=self._file.budget, level=self._level,
            platform=platform,
        )  # fmt: skip
        if isinstance(value, tuple):
            places = LocationRecorder(self._file, state, recorder)
            _stay(places, metric, day, value, self._hours[metric])
            places.save()
        elif metric in self._hours:
            own = MetricsFile({part.name: part for part in parts})
            LocationRecorder(own, state, recorder).roll(datetime.fromtimestamp(now, UTC))
        elif metric in self._numbers:
            collected = {metric: self._file.metrics[metric]}
            numbers = NumberRecorder(collected, state, recorder)
            numbers.roll(now)
            if value != NOTHING:
                numbers.record(metric, value, now)
        else:
            recorder.fill_periods(now)
            if value != NOTHING:
                recorder.record(metric, value, now)

    def step_through(self, state: MemoryState, metric: str, steps: tuple[Step, ...]) -> None:
        """Run a device with this state through a life with one metric, opened anew for each
        step."""
        for day, value in steps:
            self._step(state, metric, day, value)

    def derive(self, metric: str, asked: list[tuple[bytes, Value]]) -> list[Derived]:
        """Derive cohort and responses of devices for one metric with this SDK."""
        return [derived(self._file, metric, secret, value) for secret, value in asked]

    def close(self) -> None:
        """Do nothing: this client starts no process."""


def next_version(file: MetricsFile, metric: str) -> MetricsFile:
    """The file with one threshold of a metric exchanged: a new params_id that promises as much."""
    now = file.metrics[metric]
    m = now.params.mechanism
    if now.params.scheme.symbols:
        mechanism = m.replace(p1=m.p1 - now.params.num_bits + 1, q1=m.q1 + 1)
    elif m.has_permanent_round:
        mechanism = m.replace(p1=m.p1 - 1, q1=m.q1 + 1)
    else:
        mechanism = m.replace(q2=m.q2 + (1 if m.p2 > m.q2 else -1))
    params = now.params.replace(mechanism=mechanism)
    return file.replace(metrics={**file.metrics, metric: now.replace(params=params)})


def derived(file: MetricsFile, metric: str, secret: bytes, value: Value) -> Derived:
    """Derive cohort and responses for one value, with a device that is opened for this alone."""
    device = Encoder(file.metrics, secret).metric(metric)
    bits = device.value_bits(value)
    return Derived(device.cohort, bits, device.permanent_bits(bits))


def _stay(
    places: LocationRecorder, metric: str, day: int, value: tuple[float, float], hours: list[int]
) -> None:
    """A fix in every slot of a day at one place, by a phone that shows UTC."""
    for hour in hours:
        at = datetime.fromtimestamp(day * SECONDS_A_DAY + 3600 * hour, UTC)
        places.fix(metric, *value, at)


def over_the_wire(reports: list[Report]) -> list[SeenReport]:
    """Encode reports as binary batches and read them back as a collector does, in order."""
    seen: list[SeenReport] = []
    for start in range(0, len(reports), MAX_REPORTS):
        body = encode_binary(make_batch(os.urandom(16), reports[start : start + MAX_REPORTS]))
        for group in decode_batch(body, BINARY_CONTENT_TYPE).groups:
            day = day_of(group.day)
            seen += [SeenReport(group.metric, cohort, day, bits) for cohort, bits in group.rows]
    return seen


def _regrouped(reports: list[Report], counts: list[int]) -> list[list[SeenReport]]:
    """The reports of all devices as those of each. counts: how many each has."""
    rows, ends = over_the_wire(reports), accumulate(counts, initial=0)
    return [rows[start:end] for start, end in pairwise(ends)]
