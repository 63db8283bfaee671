"""Categories that a device derives over time: the days since the last use, the last funnel step.

Both are reported once per period, as ordinary categories. The state stores one note per metric: the
last day of use, or the current period with its last step. A withdrawal of consent wipes the notes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from client_sdk.errors import UnknownMetricError
from client_sdk.recording.recorder import ELSEWHERE, Outcome, Recorder
from client_sdk.storage.interface import HISTORY
from rappor_core.calendar import SECONDS_A_DAY, day_of, last_day, period_number
from rappor_core.errors import ValueRefusedError
from rappor_core.metrics.metric import Metric

if TYPE_CHECKING:
    from client_sdk.storage.sqlite import SqliteState

RETURN_CATEGORIES = ("new", "next day", "2 to 7 days", "8 to 30 days", "more")
_MAX_GAPS = (1, 7, 30)  # the longest gap, in days, of the second to fourth category


class HistoryRecorder:
    """The recorder for categories that depend on earlier days or steps. It is thread-safe."""

    def __init__(self, metrics: Mapping[str, Metric], state: SqliteState, recorder: Recorder):
        self._metrics = metrics
        self._state = state
        self._recorder = recorder
        self._secret = state.secret()

    def record_return(self, name: str, now: float) -> Outcome | None:
        """Report how many days ago the app was last used, at `now` (seconds since 1970, UTC).

        Return None if this day or period has already been answered. Raises UnknownMetricError, or
        ValueRefusedError if the metric's categories are not `RETURN_CATEGORIES`.
        """
        metric = self._category(name)
        if metric.categories != RETURN_CATEGORIES:
            needed = json.dumps(list(RETURN_CATEGORIES))
            raise ValueRefusedError(f"metric {name!r} needs categories = {needed} in this order")
        day = _day(now)
        with self._transaction():
            last = self._note(metric).get("last")
            if last is not None and day <= last:
                return None
            gap = 0 if last is None else day - last
            place = gap and 1 + sum(gap > longest for longest in _MAX_GAPS)
            outcome = self._recorder.record(name, RETURN_CATEGORIES[place], now)
            if outcome in ("queued", "queued_fallback", "full"):
                self._put_note(metric, last=day)
        return None if outcome == "full" else outcome

    def record_step(self, name: str, step: object, now: float) -> Outcome | None:
        """Store a funnel step (private) if it is further than this period's steps so far.

        Return None if it was counted, or why nothing is stored ("expired", "elsewhere"). `now` is
        in seconds since 1970, UTC. Raises UnknownMetricError, ValueRefusedError (the step is not
        one of the metric's categories) or StateChangedError.
        """
        metric = self._category(name)
        place = metric.rules.index(metric, step)
        if not self._recorder.runs_here(metric):
            return ELSEWHERE
        if _day(now) > day_of(metric.expires):
            return "expired"
        self._update(metric, _day(now), place)
        return None

    def roll(self, now: float) -> None:
        """Report the finished periods of all funnels."""
        for metric in self._metrics.values():
            if metric.categories and "step" in self._note(metric):
                self._update(metric, _day(now), -1)

    def _update(self, metric: Metric, day: int, place: int) -> None:
        """Report a funnel's period if it is over on `day`, then store a step's index (-1: none)."""
        period = period_number(metric.period, day)
        with self._transaction():
            note = self._note(metric)
            before, reached = note.get("period", period), note.get("step", -1)
            if before != period:
                self._state.leave_trace()
                if before < period and reached >= 0:
                    self._report(metric, reached, last_day(metric.period, before), day)
                reached = -1
            self._put_note(metric, period=period, step=max(reached, place))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            with self._state.transaction():
                yield
        except BaseException:
            self._recorder.forget()  # the recorder's cached rows were rolled back
            raise

    def _report(self, metric: Metric, place: int, day: int, today: int) -> None:
        if today - day > metric.accept_days:
            return
        bits = self._recorder.device(metric.name).value_bits(metric.categories[place])
        outcome = self._recorder.record_bits(metric.name, bits, day)
        if outcome not in ("queued", "queued_fallback"):
            self._state.count(f"{outcome}:{metric.name}")

    def _category(self, name: str) -> Metric:
        metric = self._metrics.get(name)
        if metric is None:
            raise UnknownMetricError(name, self._metrics)
        if not metric.categories:
            raise ValueRefusedError(f"metric {name!r} is of kind {metric.kind!r}, not 'category'")
        return metric

    def _note(self, metric: Metric) -> dict[str, int]:
        """Load the note (empty if damaged). Raises StateChangedError if the secret changed."""
        self._state.secret(self._secret)
        try:
            note = json.loads(self._state.note(HISTORY + metric.name) or "{}")
            stale = "step" in note and note["of"] != metric.params_id
            if not stale and not -1 <= note.get("step", -1) < len(metric.categories):
                raise LookupError
            return {} if stale else {key: int(note[key]) for key in note.keys() - {"of"}}
        except (ValueError, TypeError, LookupError, AttributeError):
            self._state.count(f"history_damaged:{metric.name}")
            self._state.put_note(HISTORY + metric.name, "{}")
            return {}

    def _put_note(self, metric: Metric, **fields: int) -> None:
        text = json.dumps({"of": metric.params_id, **fields})
        self._state.put_note(HISTORY + metric.name, text)


def _day(now: float) -> int:
    """Return the number of days since 1970-01-01, never negative, although a clock may be."""
    return max(0, int(now // SECONDS_A_DAY))
