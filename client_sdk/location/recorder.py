"""The recorder for all location and flow metrics on a device, behind `Client.record_location`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from client_sdk.errors import StateBusyError, UnknownMetricError
from client_sdk.location.dwell_time import Moment, moment_at, moment_of
from client_sdk.location.flow_visits import FlowVisits
from client_sdk.location.period_visits import Refusal, Send, Visits
from client_sdk.recording.recorder import ELSEWHERE, Recorder
from client_sdk.storage.interface import VISITS
from rappor_core.calendar import SECONDS_A_DAY
from rappor_core.errors import ValueRefusedError
from rappor_core.metrics.metrics_file import MetricsFile

if TYPE_CHECKING:
    from client_sdk.storage.sqlite import SqliteState
    from rappor_core.metrics.metric import Metric

SAVE_SECONDS = 5.0  # the maximum dwell time that is lost with a killed process

Point = tuple[float, float]  # latitude, longitude
Taken = Literal["queued", "elsewhere"] | Refusal | None


def visits_of(
    parts: Sequence[Metric], secret: bytes, send: Send, saved: str | None = None
) -> Visits:
    """Return the `Visits` object that fits the kind of a location or flow metric."""
    kind = Visits if parts[0].location is not None else FlowVisits
    return kind(parts, secret, send, saved)


class LocationRecorder:
    """A recorder that accepts fixes and trips and reports each closed period.

    Any thread may call it. `metrics` are the declared metrics. `monotonic` returns seconds, which
    limit how often the state is written.
    """

    def __init__(
        self,
        metrics: MetricsFile,
        state: SqliteState,
        recorder: Recorder,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare the recorder; the state is not read until a metric is used."""
        self._metrics = metrics
        self._state = state
        self._recorder = recorder
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._visits: dict[str, Visits] = {}
        self._saved_at = monotonic()
        self._unsaved = False
        self._secret: bytes | None = None
        self._hour = Moment(0.0, 0, 0, 0.0)
        places = [m for m in metrics.declared if m.rules.takes_fixes]
        self._elsewhere = {m.base_name for m in places if not recorder.runs_here(m)}
        self._names = tuple(m.base_name for m in places if recorder.runs_here(m))

    def take(
        self, name: str, points: tuple[Point, ...], moment: Moment, clock: Moment | None
    ) -> Taken:
        """Accept a fix (one point) or a trip (two). For `moment` and `clock`, see `times`.

        Returns:
            "queued" if the fix closed a period, whose reports are then queued; None if it did not;
            or the reason why it is not stored.

        Raises:
            UnknownMetricError, ValueRefusedError, StateChangedError.
            StateBusyError: Nothing was accepted.
        """
        with self._lock:
            if name in self._elsewhere:
                return ELSEWHERE
            visits = self._visits.get(name)
            if visits is None:
                visits = self._visits[name] = self._load(name)
            if refusal := visits.refuses(moment, clock):
                return refusal
            if len(points) == 1:
                return self._counted(visits.fix(*points[0], moment))
            return self._counted(visits.trip(points[0], points[1], moment))

    def roll(self, at: datetime | float) -> bool:
        """Close every metric's periods that are over at `at`; return True if there were any."""
        moment: Moment = moment_at(at) if isinstance(at, float) else moment_of(at)
        with self._lock:
            saved = [self._roll_saved(n, moment) for n in self._names if n not in self._visits]
            running = [visits.look(moment) for visits in self._visits.values()]
            if self._unsaved or any(visits.forgot for visits in self._visits.values()):
                self._save()
        return any(saved + running)

    def save(self) -> None:
        """Write the contents of the current periods to the state."""
        with self._lock:
            self._save()

    def times(self, at: datetime | None, now: float | None) -> tuple[Moment, Moment | None]:
        """Return a fix's moment (`at`, else `now`), and `now` as a moment, or None if not given."""
        clock = None if now is None else self._now(now)
        if at is not None:
            return moment_of(at), clock
        if clock is None:
            raise ValueRefusedError("neither `at` nor `now` is given: a fix needs a time")
        return clock, clock

    def _now(self, now: float) -> Moment:
        """Return `moment_at(now)`, cached so that it is computed once per hour."""
        hour = self._hour
        gone = now - hour.at
        if 0 <= gone < hour.left:
            return Moment(now, hour.day, hour.hour, hour.left - gone)
        self._hour = moment_at(now)
        return self._hour

    def _roll_saved(self, name: str, moment: Moment) -> bool:
        """Close a metric's finished periods in the stored state, which other processes may use."""
        try:
            with self._state.transaction():
                visits = self._load(name)
                before, closed = visits.to_json(), visits.look(moment)
                if visits.to_json() != before:
                    self._keep(name, visits)
        except BaseException:
            self._recorder.forget()  # its new lines and sources were rolled back
            raise
        return closed

    def _load(self, name: str) -> Visits:
        """Load a metric's saved state. Raises an error if the metric or the state is unsuitable."""
        if name not in self._names:
            declared = self._metrics.metrics.get(name)
            if declared is not None:
                raise ValueRefusedError(
                    f"{name!r} is one slot and level of metric {declared.base_name!r}: record that"
                    if declared.location is not None
                    else f"metric {name!r} takes no fixes: use record"
                )
            raise UnknownMetricError(name, self._names)
        secret = self._secret = self._state.secret(self._secret)
        parts = self._metrics.parts(name)
        try:
            return visits_of(parts, secret, self._send, self._state.note(VISITS + name))
        except (ValueError, TypeError, LookupError, AttributeError):
            self._state.count(f"places_damaged:{name}")
            return visits_of(parts, secret, self._send)  # the ledger also records what was sent

    def _send(self, name: str, value: str, day: int) -> None:
        """Queue the report for a period (the recorder allows only one), and count refusals."""
        outcome = self._recorder.record(name, value, float(day * SECONDS_A_DAY))
        if outcome not in ("queued", "queued_fallback"):
            self._state.count(f"{outcome}:{name}")

    def _counted(self, closed: bool) -> Literal["queued"] | None:
        self._unsaved |= closed or self._monotonic() - self._saved_at >= SAVE_SECONDS
        if self._unsaved:
            with suppress(StateBusyError):
                self._save()
        return "queued" if closed else None

    def _save(self) -> None:
        """Write to the state, unless another process has withdrawn consent in the meantime."""
        if not self._visits:
            return
        with self._state.transaction():
            self._state.secret(self._secret)
            for name, visits in self._visits.items():
                self._keep(name, visits)
        for visits in self._visits.values():
            visits.forgot = False
        self._saved_at, self._unsaved = self._monotonic(), False

    def _keep(self, name: str, visits: Visits) -> None:
        if visits.forgot:
            self._state.leave_trace()
        self._state.put_note(VISITS + name, visits.to_json())
