"""The periods in which a device answers about places, and the time it spends in each cell."""

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from functools import lru_cache
from heapq import nlargest
from typing import NamedTuple

from client_sdk.randomization.key_derivation import draw
from rappor_core.calendar import EPOCH_ORDINAL, day_of
from rappor_core.errors import ParameterError, ValueRefusedError
from rappor_core.metrics.metric import Metric

MAX_PLACES = 512  # per slot and period; beyond it, the half with less time is forgotten

Place = int | str  # a cell's code, a pair of cells as text, or OUTSIDE
OUTSIDE: Place = -1


class Dwell:
    """The seconds (or trips) in each slot and place of a period. Private.

    Only the usual place of each slot is used.
    """

    __slots__ = ("_slots",)

    def __init__(self, rows: Iterable[tuple[str, Place, float]] = ()) -> None:
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
        if len(places) > MAX_PLACES:
            longest = nlargest(MAX_PLACES // 2, places.items(), key=lambda item: item[1])
            self._slots[slot] = dict(longest)

    def enter(self, slot: str, place: Place, least: float) -> None:
        """Add `least` seconds to a place that has no time yet, so that a single fix counts."""
        if place not in self._slots.get(slot, ()):
            self.add(slot, place, least)

    def usual(self, slot: str) -> Place | None:
        """Return the place with the most time in a slot (the first if tied); None if no data."""
        places = self._slots.get(slot)
        return max(places, key=places.__getitem__) if places else None

    def rows(self) -> list[tuple[str, Place, float]]:
        """Return a row (slot, place, seconds or trips) for each place, to store in the state."""
        return [
            (slot, place, amount)
            for slot, places in self._slots.items()
            for place, amount in places.items()
        ]


SECONDS_AN_HOUR = 3_600


class Moment(NamedTuple):
    """A point in time in the device's local time."""

    at: float  # seconds since 1970, UTC
    day: int  # the local date, in days since 1970-01-01
    hour: int  # 0 to 23
    left: float  # seconds until the local hour ends


def moment_of(at: datetime) -> Moment:
    """Convert a datetime that has a time zone; raise ValueRefusedError for any other value."""
    if not isinstance(at, datetime):
        raise ValueRefusedError(
            f"`at` is of type {type(at).__name__!r}; pass a datetime with a time zone, or leave it "
            "out for now"
        )
    if at.utcoffset() is None:
        raise ValueRefusedError(
            "`at` has no time zone, so its slot is unknown; pass datetime.now().astimezone()"
        )
    gone = at.minute * 60 + at.second + at.microsecond * 1e-6
    return Moment(at.timestamp(), _day(at), at.hour, SECONDS_AN_HOUR - gone)


def moment_at(now: float) -> Moment:
    """Convert seconds since 1970 to a moment in the system's time zone."""
    local = time.localtime(now)
    day = _day(date(local.tm_year, local.tm_mon, local.tm_mday))
    gone = local.tm_min * 60 + min(local.tm_sec, 59) + now % 1
    return Moment(now, day, local.tm_hour, SECONDS_AN_HOUR - gone)


def _day(local: date) -> int:
    """Return the local date as days since 1970-01-01; 0 for earlier dates (an unset clock)."""
    return max(0, day_of(local))


def is_weekend(day: int) -> bool:
    """Return whether a day, counted from 1970-01-01, is a Saturday or Sunday."""
    return (day + EPOCH_ORDINAL - 1) % 7 >= 5


class Assignment(NamedTuple):
    """The level, the slots and the schedule by which a device answers a location metric."""

    level: int  # the level of the grid, the same for every slot
    slots: tuple[str, ...]  # the names of the slots
    names: tuple[str, ...]  # the names of the sub-metrics, in the order of slots
    # every, phase: In period p, the slot of index s is answered if (p * slots + s) % every ==
    # phase. If every = 1, all are answered. If every = 0, only slot `phase` is, once in a lifetime.
    every: int
    phase: int
    # The number of periods for which a slot's last known place replaces a missing fix.
    hold: int = 0
    # A function that maps the number of a block of `every` (period, slot) pairs to its phase, which
    # replaces `phase`. If None, `phase` applies over the device's lifetime.
    fresh: Callable[[int], int] | None = None

    def due(self, period: int) -> list[tuple[str, str]]:
        """Return (slot, name of sub-metric) for each report that is due for a period."""
        pairs = list(zip(self.slots, self.names, strict=True))
        if self.every == 0:
            return [pairs[self.phase]]
        first = period * len(pairs)
        phase = self.phase if self.fresh is None else self.fresh(first // self.every)
        return [p for i, p in enumerate(pairs) if (first + i) % self.every == phase]

    def answers_from(self, period: int) -> list[tuple[int, str]]:
        """Return (period, slot) of each answer that may use places from a given period.

        These are the answers for this period and the `hold` periods after it. If the schedule is
        drawn again in each block, no block answers with a place from another block, so that a
        block's epsilon covers all that happened in the block.
        """
        end = period + self.hold + 1
        if self.fresh is not None:
            window = self.every // len(self.slots)
            end = min(end, (period // window + 1) * window)
        return [(turn, slot) for turn in range(period, end) for slot, _ in self.due(turn)]


def assignment_of(secret: bytes, parts: Sequence[Metric]) -> Assignment:
    """Draw a device's assignment from its secret.

    `parts` are all sub-metrics of one declared name, in order. Raises ParameterError if the metric
    is not of kind `location`.
    """
    location = parts[0].location
    if location is None:
        raise ParameterError(f"metric {parts[0].name!r} is not of kind 'location'")
    base = parts[0].base_name
    level = location.grid.levels[draw(secret, b"level", base, len(location.grid.levels))]
    names = tuple(part.name for part in parts if part.location and part.location.level == level)
    slots = tuple(slot.name for slot in location.slots)
    every = location.every
    if location.turn == "fresh":

        @lru_cache(maxsize=4)
        def fresh(block: int) -> int:
            return draw(secret, b"turn", base, every, block.to_bytes(8, "big"))

        return Assignment(level, slots, names, every, 0, location.hold, fresh)
    phase = draw(secret, b"phase", base, every or len(slots))
    return Assignment(level, slots, names, every, phase, location.hold)
