"""Adds up how long the device was in each cell during a period; on the device only, bounded,
then forgotten."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import date, datetime
from heapq import nlargest
from typing import NamedTuple

from rappor_core.calendar import EPOCH_ORDINAL, day_of
from rappor_core.errors import ValueRefusedError

MOST_PLACES = 512  # of one slot and period; past it the half with less time is forgotten

Place = int | str  # a cell's code, a pair of cells as text; OUTSIDE
OUTSIDE: Place = -1


class Dwell:
    """Seconds (or trips) in each slot and place of a period. Private: only the usual place is
    used."""

    __slots__ = ("_slots",)

    def __init__(self, rows: Iterable[tuple[str, Place, float]] = ()) -> None:
        """rows: as `rows` gave them."""
        self._slots: dict[str, dict[Place, float]] = {}
        for slot, place, amount in rows:
            self.add(slot, place, amount)

    def add(self, slot: str, place: Place, amount: float) -> None:
        """Add time (or one trip) to a place."""
        places = self._slots.get(slot)
        if places is None:
            places = self._slots[slot] = {}
        if place in places:
            places[place] += amount
            return
        places[place] = amount
        if len(places) > MOST_PLACES:
            kept = nlargest(MOST_PLACES // 2, places.items(), key=lambda item: item[1])
            self._slots[slot] = dict(kept)

    def enter(self, slot: str, place: Place, least: float) -> None:
        """Give a place at least `least` seconds, so that a single fix counts."""
        if place not in self._slots.get(slot, ()):
            self.add(slot, place, least)

    def usual(self, slot: str) -> Place | None:
        """Find the place with most time in a slot, the first seen of equals; None without data."""
        places = self._slots.get(slot)
        return max(places, key=places.__getitem__) if places else None

    def rows(self) -> list[tuple[str, Place, float]]:
        """List everything, for the state."""
        return [
            (slot, place, amount)
            for slot, places in self._slots.items()
            for place, amount in places.items()
        ]


SECONDS_AN_HOUR = 3_600


class Moment(NamedTuple):
    """A moment in the local time of the device: date, hour and second.

    at: seconds since 1970, UTC.  day: of the local date, since 1970-01-01.  hour: 0 to 23.
    left: seconds until the local hour ends.
    """

    at: float
    day: int
    hour: int
    left: float


def moment_of(at: datetime) -> Moment:
    """Take apart a datetime with a time zone. Raises ValueRefusedError for anything else."""
    if not isinstance(at, datetime):
        raise ValueRefusedError(
            f"`at` is of type {type(at).__name__!r}; pass a datetime with a time zone, or leave it "
            "out for now"
        )
    if at.utcoffset() is None:
        raise ValueRefusedError(
            "`at` has no time zone, so its slot is not known; pass datetime.now().astimezone()"
        )
    gone = at.minute * 60 + at.second + at.microsecond * 1e-6
    return Moment(at.timestamp(), _day(at), at.hour, SECONDS_AN_HOUR - gone)


def moment_at(now: float) -> Moment:
    """Take apart seconds since 1970, in the system's time zone."""
    local = time.localtime(now)
    day = _day(date(local.tm_year, local.tm_mon, local.tm_mday))
    gone = local.tm_min * 60 + min(local.tm_sec, 59) + now % 1
    return Moment(now, day, local.tm_hour, SECONDS_AN_HOUR - gone)


def _day(local: date) -> int:
    """The local date as days since 1970-01-01; a clock without a battery shows no date before."""
    return max(0, day_of(local))


def is_weekend(day: int) -> bool:
    """Whether a day since 1970-01-01 is a Saturday or Sunday."""
    return (day + EPOCH_ORDINAL - 1) % 7 >= 5
