"""`Location`: the settings of a metric of kind `location`. Public and immutable.

A declared metric becomes one sub-metric for each slot and level, named `name/slot/level`. Each
sub-metric has its own counters. All sub-metrics share the ledger, cohort and permanent responses of
the declared name, so a cell seen in several slots uses privacy budget only once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal, get_args

from rappor_core.errors import ParameterError, check_whole, shown
from rappor_core.frozen import Frozen
from rappor_core.grid.box import RESERVED
from rappor_core.grid.grid import Grid

Turn = Literal["fixed", "fresh"]
Days = Literal["all", "weekdays", "weekends"]

MAX_WINDOW = 1_000  # periods
MAX_HOLD = 60  # periods
MAX_GAP_MINUTES = 24 * 60
DEFAULT_GAP_MINUTES = 60
DEFAULT_SLOTS = ("day 0-24",)
_SLOT = re.compile(
    r"(?P<name>[a-z][a-z0-9_-]{0,31}) (?P<first>\d{1,2})-(?P<last>\d{1,2})"
    r"(?: (?P<days>weekdays|weekends))?",
    re.ASCII,
)


class Slot(Frozen):
    """A range of hours in the local day, from `first` o'clock to `last` o'clock.

    If last <= first, the slot wraps around: "night 22-6" is the first six hours and the last two
    hours of the same local date.
    """

    name: str
    first: int
    last: int
    days: Days = "all"

    @classmethod
    def parse(cls, text: object) -> Slot:
        """Parse "night 22-6" or "work 9-17 weekdays". Raises ParameterError if it is invalid."""
        match = _SLOT.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise ParameterError(
                f"slot {shown(text)}: write a name and hours such as 'night 22-6', "
                "and 'weekdays' or 'weekends' after them if it is not every day"
            )
        first, last = int(match["first"]), int(match["last"])
        if first > 23 or not 1 <= last <= 24 or first == last:
            raise ParameterError(
                f"slot {shown(text)}: hours run from 0-23 to 1-24, and must differ"
            )
        days: Days = match["days"] or "all"  # type: ignore[assignment]
        return cls(match["name"], first, last, days)

    def __str__(self) -> str:
        hours = f"{self.name} {self.first}-{self.last}"
        return hours if self.days == "all" else f"{hours} {self.days}"

    def covers(self, hour: int, weekend: bool) -> bool:
        """Return whether the slot contains an hour (0 to 23) of a weekday or weekend day."""
        if self.days != "all" and weekend != (self.days == "weekends"):
            return False
        if self.first < self.last:
            return self.first <= hour < self.last
        return hour >= self.first or hour < self.last


class PlaceMode(Frozen):
    """A location's mode: how often a device answers, and its lifetime report limit. Public."""

    name: str
    memoizes: bool = False  # permanent responses are reused; otherwise reports are fresh
    # The minimum and maximum for `window`. A device sends one report per `window` periods, and this
    # spacing limits the number of reports. (0, 0) means one report for every period.
    windows: tuple[int, int] = (0, 0)
    max_reports: int | None = None  # over the device's lifetime; None if the declared limit applies


_MODES = {
    mode.name: mode
    for mode in (
        PlaceMode("memo", memoizes=True),
        PlaceMode("window", windows=(2, MAX_WINDOW)),
        PlaceMode("once", max_reports=1),
    )
}


def mode_named(name: object) -> PlaceMode:
    """Return the mode that has a name. Raises ParameterError if the name is unknown."""
    if not isinstance(name, str) or name not in _MODES:
        raise ParameterError(f"mode = {shown(name)} is not one of {', '.join(_MODES)}")
    return _MODES[name]


class Location(Frozen):
    """The settings that convert a location to a value.

    Raises ParameterError, which repeats the bad value.
    """

    grid: Grid  # the grid, with every level of the metric
    level: int  # This sub-metric's level, one of the grid's levels
    slots: tuple[Slot, ...]  # all declared slots, without overlap
    slot: str  # the name of this sub-metric's slot
    # `memo` (a permanent response for each cell, reports every period), `window` (one fresh report
    # every `window` periods) or `once` (one report over the device's lifetime).
    mode: str
    window: int = 0  # the number of periods in mode `window`; 0 in other modes
    pairs: bool = False  # whether values are trips, "origin>destination"
    # The maximum time that one fix counts for, on the device.
    max_gap_minutes: int = DEFAULT_GAP_MINUTES
    # When the report is due in mode `window`. `fixed` draws the time once in the device's lifetime.
    # `fresh` draws it again in each block of `window` periods (block b begins with period b *
    # window).
    turn: Turn = "fixed"
    # The maximum age, in periods, of a last known place that can answer for a slot and period
    # without a fix. With `fresh`, the place must also be from the same block. 0: no data.
    hold: int = 0

    def __post_init__(self) -> None:
        if self.level not in self.grid.levels:
            raise ParameterError(
                f"level {shown(self.level)} is not one of {list(self.grid.levels)}"
            )
        least, most = self.rules.windows
        self._check_slots()
        if type(self.window) is not int or not least <= self.window <= most:
            raise ParameterError(
                f"window = {shown(self.window)}: mode 'window' needs 2 to 1,000 periods, "
                "the other modes none"
            )
        check_whole("max_gap_minutes", self.max_gap_minutes, 1, MAX_GAP_MINUTES)
        if type(self.pairs) is not bool:
            raise ParameterError(f"pairs = {self.pairs!r} is not true or false")
        self._check_turn_and_hold()

    def _check_turn_and_hold(self) -> None:
        if self.turn not in get_args(Turn):
            raise ParameterError(f"turn = {shown(self.turn)} is not 'fixed' or 'fresh'")
        if type(self.hold) is not int or not 0 <= self.hold <= MAX_HOLD:
            raise ParameterError(
                f"hold = {shown(self.hold)} is not a number of periods from 0 to {MAX_HOLD}"
            )
        if self.turn == "fresh" and not self.window:
            raise ParameterError(f"turn = 'fresh' goes with mode = 'window', not {self.mode!r}")
        if self.window and self.hold >= self.window:  # a place must expire before the next answer
            raise ParameterError(
                f"hold = {self.hold} is not shorter than window = {self.window} periods"
            )
        if self.hold and self.rules.max_reports:
            raise ParameterError(
                f"hold = {self.hold} does not go with mode = 'once', which answers the first "
                "period that a device is asked in"
            )

    def _check_slots(self) -> None:
        names = [slot.name for slot in self.slots]
        if self.slot not in names or len(set(names)) != len(names) or len(names) > 24:
            raise ParameterError(f"slots {names} need 1 to 24 different names; {self.slot!r} too")
        check_no_overlap(self.slots)

    @property
    def rules(self) -> PlaceMode:
        """Return the rules of the mode. Raises ParameterError if the mode is unknown."""
        return mode_named(self.mode)

    def domain_with(self, no_data: str | None = None) -> Mapping[str, int]:
        """Return the bit of each value of a one-hot sub-metric.

        Cells come first, in order, then the reserved values. `no_data` is the metric's value for no
        data, or None if it declares none.
        """
        return _domain(self.grid, self.level, reserved_values(no_data))

    @property
    def every(self) -> int:
        """Return how many (period, slot) pairs share one answer; 0 if all pairs do."""
        if self.rules.max_reports:
            return 0
        return self.window * len(self.slots) or 1

    @property
    def num_turns(self) -> int:
        """Return `every`, or the number of slots in mode `once`."""
        return self.every or len(self.slots)

    def most_reports_in(self, periods: int) -> int:
        """Return the maximum number of reports for one slot in consecutive periods (0 or more).

        With `turn = "fresh"`, this is one report for each block that the periods can overlap.
        """
        if self.rules.max_reports or not periods:
            return min(periods, 1)
        if self.turn == "fresh":
            return (periods - 2) // self.window + 2
        return -(-periods // self.window) if self.window else periods

    def slot_at(self, hour: int, weekend: bool) -> str | None:
        """Return the slot that contains an hour.

        Args:
            hour: The hour, 0 to 23, local time.
            weekend: Whether the day is on a weekend.

        Returns:
            The name of the slot, or None if no slot contains the hour.
        """
        return slot_at(self.slots, hour, weekend)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values; `from_dict` reads them.

        `turn` and `hold` are omitted if they have their defaults, as in files from before these
        keys existed.
        """
        later: dict[str, Any] = {"turn": self.turn} if self.turn == "fresh" else {}
        if self.hold:
            later["hold"] = self.hold
        return later | {
            "grid": self.grid.to_dict(),
            "level": self.level,
            "slots": [str(slot) for slot in self.slots],
            "slot": self.slot,
            "mode": self.mode,
            "window": self.window,
            "pairs": self.pairs,
            "max_gap_minutes": self.max_gap_minutes,
        }

    @property
    def meaning(self) -> dict[str, Any]:
        """Return the settings that change a report's meaning: all but the slot's name.

        The sub-metric's name contains the slot. The slots of a metric share their parameters, so a
        cell has the same permanent response in all slots.
        """
        return {key: value for key, value in self.to_dict().items() if key != "slot"}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Location:
        """Read the plain values that `to_dict` returns. Raises ParameterError if invalid."""
        values = dict(fields)
        if not _REQUIRED <= values.keys() <= set(cls.field_names):
            raise ParameterError(f"a location has unknown or missing keys: {sorted(values)}")
        values["grid"] = Grid.from_dict(values["grid"])
        values["slots"] = tuple(map(Slot.parse, values["slots"]))
        return cls(**values)


def check_no_overlap(slots: Iterable[Slot]) -> None:
    """Check that no hour belongs to two slots. Raises ParameterError otherwise."""
    for weekend in (False, True):
        for hour in range(24):
            both = [slot.name for slot in slots if slot.covers(hour, weekend)]
            if len(both) > 1:
                raise ParameterError(
                    f"slots {both[0]!r} and {both[1]!r} overlap at {hour} o'clock; "
                    "an hour belongs to one slot"
                )


def slot_at(slots: Iterable[Slot], hour: int, weekend: bool) -> str | None:
    """Return the name of the slot that contains an hour, or None. Slots must not overlap."""
    return next((slot.name for slot in slots if slot.covers(hour, weekend)), None)


_REQUIRED = set(Location.field_names) - {"turn", "hold"}


def reserved_values(no_data: str | None) -> tuple[str, ...]:
    """Return a location's values that are not places; in a domain they follow the cells.

    `no_data` is the metric's value for no data; if None, `other` represents no data, too.
    """
    return RESERVED[:1] if no_data is None else RESERVED


@lru_cache(maxsize=64)
def _domain(grid: Grid, level: int, reserved: tuple[str, ...]) -> Mapping[str, int]:
    return {name: bit for bit, name in enumerate((*grid.cells(level), *reserved))}
