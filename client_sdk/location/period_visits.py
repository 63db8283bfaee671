"""One location metric on one device, which reduces fixes to a usual place per slot and period.

The main path is `fix` -> `Dwell.add`, and `roll` when a period is over. The usual place of each
slot becomes its last known place. Each due slot always gets one report; if nothing is known, it is
`no_data` if declared, or else `other`. Then the device forgets the period's fixes and each last
known place that no later answer may repeat.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from client_sdk.location.dwell_time import (
    OUTSIDE,
    SECONDS_AN_HOUR,
    Assignment,
    Dwell,
    Moment,
    Place,
    assignment_of,
    is_weekend,
)
from client_sdk.storage.periods import Periods
from rappor_core.calendar import day_of, last_day, period_number
from rappor_core.errors import ParameterError, ValueRefusedError
from rappor_core.grid.grid import OTHER, PAIR_SEPARATOR, Grid
from rappor_core.metrics.metric import Metric

if TYPE_CHECKING:
    from rappor_core.metrics.flow import Flow
    from rappor_core.metrics.location import Location

SHORTEST = 1.0  # the minimum number of seconds per fix, so that a single fix is not lost
MAX_AHEAD = 86_400.0  # the maximum number of seconds that a fix may be ahead of the device's clock

Refusal = Literal["late", "expired", "ahead"]

Send = Callable[[str, str, int], None]  # arguments: sub-metric, value, day since 1970-01-01


class Visits:
    """The state of one location metric on a device during a period. All of it is private.

    `send` queues the report of a sub-metric's value for a day; it may refuse.
    """

    def __init__(
        self, parts: Sequence[Metric], secret: bytes, send: Send, saved: str | None
    ) -> None:
        """Prepare the metric; `parts` are the sub-metrics of one declared name.

        `saved` is the text of `to_json`, or None.
        """
        metric = parts[0]
        self._metric = metric
        self._location: Location | Flow = self._settings(metric)
        self._expires = day_of(metric.expires)
        self._send = send
        self._level = self._location.grid.finest  # the level of this device's cells
        self._draw(secret, parts)
        self._asked: dict[tuple[int, bool], str | None] = {}  # the slot by hour and is_weekend
        self._period: int | None = None
        self._today: int | None = None  # the day of the last clock check in that period
        self._dwell = Dwell()
        self._known: dict[str, tuple[int, Place]] = {}  # by slot: the period and place last known
        self._reported = Periods()
        self.forgot = False  # whether a period's data was forgotten since this was last cleared
        self._last: tuple[Moment, Place, float] | None = None  # plus the seconds it may still add
        if saved is not None:
            self._restore(json.loads(saved))

    def _settings(self, metric: Metric) -> Location | Flow:
        if metric.location is None:
            raise ParameterError(f"metric {metric.name!r} is not of kind 'location'")
        return metric.location

    def _draw(self, secret: bytes, parts: Sequence[Metric]) -> None:
        self._assignment: Assignment = assignment_of(secret, parts)
        self._level = self._assignment.level

    def fix(self, latitude: float, longitude: float, moment: Moment) -> bool:
        """Add a fix; return True if it closed a period.

        Raises ValueRefusedError if the point is invalid or the metric expects trips.
        """
        if self._location.pairs:
            raise ValueRefusedError(
                f"metric {self._metric.base_name!r} takes trips, not fixes: use record_trip"
            )
        place = self._place(latitude, longitude)
        closed = self.roll(moment)
        slot = self._asked[moment.hour, is_weekend(moment.day)]
        if slot is not None:
            self._dwell.enter(slot, place, SHORTEST)
        at = place if any(self._asked.values()) else OUTSIDE  # if no slot is due, store no place
        self._last = moment, at, self._location.max_gap_minutes * 60.0
        return closed

    def trip(self, origin: tuple[float, float], end: tuple[float, float], moment: Moment) -> bool:
        """Add a finished trip; return True if it closed a period. Raises the errors of `fix`."""
        if not self._location.pairs:
            raise ValueRefusedError(
                f"metric {self._metric.base_name!r} takes fixes, not trips: use record_location"
            )
        try:
            first, second = self._place(*origin), self._place(*end)
        except TypeError:
            raise ValueRefusedError(
                "a trip is two points, each a latitude and a longitude: (42.36, -72.54)"
            ) from None
        closed = self.roll(moment)
        slot = self._asked[moment.hour, is_weekend(moment.day)]
        if slot is not None:
            outside = OUTSIDE in (first, second)
            pair = OUTSIDE if outside else f"{first}{PAIR_SEPARATOR}{second}"
            self._dwell.add(slot, pair, 1.0)
        return closed

    def refuses(self, moment: Moment, clock: Moment | None = None) -> Refusal | None:
        """Return why a fix at this time is refused, or None to accept it.

        `ahead`: more than a day ahead of the device's clock, so that one wrong time cannot end
        periods that have not begun. `late`: in a reported period, or before both the clock's
        period and the metric's current period. `expired`: the metric has expired. `clock` is the
        time on the device's clock; None means the time of the fix.
        """
        if clock is not None and moment.at > clock.at + MAX_AHEAD:
            return "ahead"
        if moment.day > self._expires:
            return "expired"
        if moment.day == self._today:
            return None
        unit, begun = self._metric.period, self._period
        period = period_number(unit, moment.day)
        if begun is not None and period < begun and period in self._reported:
            return "late"
        if clock is None:
            return None
        present = period_number(unit, clock.day)
        return "late" if period < min(present, present if begun is None else begun) else None

    def look(self, clock: Moment) -> bool:
        """Check the clock without a fix; return True if a period was closed.

        An earlier date does not mean here that the clock went back, unless it is before the last
        fix. While the period lasts, no time is added, because late fixes may still come.
        """
        last, before = self._last, self._period
        period = period_number(self._metric.period, clock.day)
        if before is not None and period == before:
            self._today = clock.day
            return False
        if before is not None and period < before and last is not None and last[0].at <= clock.at:
            return False
        return self.roll(clock)

    def roll(self, moment: Moment) -> bool:
        """Add the time since the last fix, and close a period that is over; return True if so.

        Then the fix itself is forgotten, and the time until the next one does not count. An answer
        for a period depends on other periods only as far as `hold` allows. If the clock went back,
        no period is closed, and data from periods that are now in the future is dropped, so that
        none is reported twice. If a report cannot be queued, nothing changes, so that the call can
        be repeated.
        """
        self._credit(moment)
        if moment.day == self._today:
            return False
        period, before = period_number(self._metric.period, moment.day), self._period
        if period == before:
            self._today = moment.day
            return False
        closed = before is not None and before < period
        if before is not None and closed:
            self._close(before, period, moment.day)
        self._today = moment.day
        self._dwell, self._last = Dwell(), None
        self.forgot |= before is not None
        self._begin(period)
        return closed

    def to_json(self) -> str:
        """Return the whole state as JSON."""
        return json.dumps(self._saved(), separators=(",", ":"))

    def _saved(self) -> dict[str, Any]:
        last = None if self._last is None else [list(self._last[0]), *self._last[1:]]
        return {
            "of": [self._metric.period, self._metric.params_id],
            "period": self._period,
            "dwell": self._dwell.rows(),
            "reported": self._reported.runs(),
            "known": [[slot, *entry] for slot, entry in self._known.items()],
            "last": last,
        }

    def _restore(self, saved: dict[str, Any]) -> None:
        """Restore saved data if its meaning is unchanged in this version of the app."""
        unit, params_id = saved.get("of", ("", ""))
        if unit != self._metric.period:
            return
        self._reported = Periods(saved["reported"])
        if saved["period"] is not None:
            self._begin(saved["period"])
        if params_id != self._metric.params_id:  # cells and slots may differ
            return
        self._dwell = Dwell(saved["dwell"])
        self._known = {slot: (period, place) for slot, period, place in saved.get("known", ())}
        if saved["last"] is not None:
            moment, place, seconds = saved["last"]
            most = self._location.max_gap_minutes * 60.0  # a larger value is damage
            self._last = Moment(*moment), place, min(seconds, most)

    def _begin(self, period: int) -> None:
        self._period = period
        slots = {slot for _, slot in self._to_come(period)}
        for hour in range(24):
            for weekend in (False, True):
                slot = self._location.slot_at(hour, weekend)
                self._asked[hour, weekend] = slot if slot in slots else None
        self._forget_known(period)

    def _forget_known(self, period: int) -> None:
        self._known = {
            slot: (period_seen, place)
            for slot, (period_seen, place) in self._known.items()
            if period_seen < period and any(of == slot for _, of in self._to_come(period_seen))
        }

    def _to_come(self, period_seen: int) -> list[tuple[int, str]]:
        """Return (period, slot) of pending answers that can use the place of `period_seen`."""
        if self._answered_for_life:
            return []
        return [
            (turn, slot)
            for turn, slot in self._assignment.answers_from(period_seen)
            if self._period is not None and turn >= self._period and turn not in self._reported
        ]

    @property
    def _answered_for_life(self) -> bool:
        return self._assignment.every == 0 and bool(self._reported.runs())

    def _place(self, latitude: float, longitude: float) -> Place:
        grid: Grid = self._location.grid
        cell = grid.locate(latitude, longitude)
        if cell is None:
            return OUTSIDE
        return grid.system.parent(cell, grid.finest, self._level)

    def _credit(self, moment: Moment) -> None:
        """Add the time since the last fix to its place, hour by hour, up to the maximum gap."""
        if self._last is None:
            return
        start, place, seconds = self._last
        take = min(moment.at - start.at, seconds)
        if take <= 0:
            return
        day, hour, in_hour = start.day, start.hour, start.left
        remaining = take
        if take < in_hour:  # the usual case: all the time is in one hour, so in one slot and period
            slot = self._asked[hour, is_weekend(day)]
            if slot is not None:
                self._dwell.add(slot, place, take)
            remaining, in_hour = 0.0, in_hour - take
        while remaining > 0:
            chunk = min(remaining, in_hour)
            slot = self._asked[hour, is_weekend(day)]
            if slot is not None and period_number(self._metric.period, day) == self._period:
                self._dwell.add(slot, place, chunk)
            remaining -= chunk
            in_hour -= chunk
            if in_hour <= 0:
                day, hour, in_hour = day + (hour == 23), (hour + 1) % 24, SECONDS_AN_HOUR
        self._last = Moment(start.at + take, day, hour, in_hour), place, seconds - take

    def _close(self, first: int, end: int, today: int) -> None:
        """Report the periods from `first` (the only period with data) up to but excluding `end`.

        Periods too old for a collector are skipped, because even a rejected report costs budget.
        """
        unit = self._metric.period
        self._learn(first)
        oldest = period_number(unit, today - self._metric.accept_days - 1)  # UTC may be behind
        for period in range(max(first, oldest), end):
            self._report(period)

    def _learn(self, period: int) -> None:
        for slot in self._location.slots:
            place = self._dwell.usual(slot.name)
            if place is not None:
                self._known[slot.name] = period, place

    def _report(self, period: int) -> None:
        if period in self._reported or self._answered_for_life:
            return
        day = last_day(self._metric.period, period)
        for slot, name in self._assignment.due(period):
            self._send(name, self._value(self._known_at(period, slot)), day)
        self._reported.add(period)

    def _known_at(self, turn: int, slot: str) -> Place | None:
        since, place = self._known.get(slot, (turn, None))
        return place if (turn, slot) in self._assignment.answers_from(since) else None

    def _value(self, place: Place | None) -> str:
        if place is None:
            return self._metric.no_data or OTHER
        if place == OUTSIDE:
            return OTHER
        system, level = self._location.grid.system, self._level
        cells = place.split(PAIR_SEPARATOR) if isinstance(place, str) else [place]
        return PAIR_SEPARATOR.join(system.name(int(cell), level) for cell in cells)
