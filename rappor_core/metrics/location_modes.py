"""Modes of places: how often a device answers for its slots, and what bounds its answers.

A new mode is a subclass of `PlaceMode` and its instance in `_MODES`. The file, the device, the
ledger and what is said of a metric's risk ask the mode; nobody compares its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rappor_core.errors import ParameterError, shown

if TYPE_CHECKING:
    from rappor_core.metrics.location import Location

MAX_WINDOW = 1_000  # periods


class PlaceMode:
    """What the location metrics of one mode have in common. Public, and without a state.

    As it is here, a device has one fresh report for every slot and period.

    name: as in `metrics.toml`.
    memoises: whether a cell has a permanent response, which is repeated; else reports are fresh.
    windows: the least and the most periods of its `window`; (0, 0) for none.
    spaced: whether reports are bounded by the time between two of them (`window`, `turn`), not by
        number and period.
    max_reports: of a life, where the mode says; None: what is declared.
    """

    name: str
    memoises = False
    windows = 0, 0
    spaced = False
    max_reports: int | None = None

    def check(self, location: Location) -> None:
        """Check `turn` and `hold`, each valid by itself. Raises ParameterError."""
        if location.turn == "fresh":
            raise ParameterError(f"turn = 'fresh' goes with mode = 'window', not {self.name!r}")

    def every(self, location: Location) -> int:  # noqa: ARG002
        """Of how many pairs (period, slot) a device answers one; 0: of all in its life."""
        return 1

    def most_reports_in(self, location: Location, periods: int) -> int:  # noqa: ARG002
        """The most reports of one slot that a device sends in `periods` (1 or more) in a row."""
        return periods


class MemoMode(PlaceMode):
    """A permanent response for each cell; a report for every slot and period."""

    name = "memo"
    memoises = True


class WindowMode(PlaceMode):
    """One fresh report in every `window` periods."""

    name = "window"
    windows = 2, MAX_WINDOW
    spaced = True

    def check(self, location: Location) -> None:
        """Check that `hold` is shorter than `window`: a place is not held until the next answer."""
        if location.hold >= location.window:
            raise ParameterError(
                f"hold = {location.hold} is not shorter than window = {location.window} periods"
            )

    def every(self, location: Location) -> int:
        """All pairs (period, slot) of a window: a device answers one of them."""
        return location.window * len(location.slots)

    def most_reports_in(self, location: Location, periods: int) -> int:
        """One report in each window; with fresh turns one in each block that they can touch."""
        if location.turn == "fresh":
            return (periods - 2) // location.window + 2
        return -(-periods // location.window)


class OnceMode(PlaceMode):
    """One fresh report for life."""

    name = "once"
    max_reports = 1

    def check(self, location: Location) -> None:
        """Check that neither `turn = "fresh"` nor `hold` is declared."""
        super().check(location)
        if location.hold:
            raise ParameterError(
                f"hold = {location.hold} does not go with mode = 'once', which answers the first "
                "period that a device is asked in"
            )

    def every(self, location: Location) -> int:  # noqa: ARG002
        """0: a device answers one slot, in the first period that it is asked in."""
        return 0

    def most_reports_in(self, location: Location, periods: int) -> int:  # noqa: ARG002
        """At most one report, whatever `periods`."""
        return 1


_MODES: dict[str, PlaceMode] = {mode.name: mode for mode in (MemoMode(), WindowMode(), OnceMode())}


def mode_named(name: object) -> PlaceMode:
    """The mode of a name. Raises ParameterError for one that is unknown."""
    if not isinstance(name, str) or name not in _MODES:
        raise ParameterError(f"mode = {shown(name)} is not one of {', '.join(_MODES)}")
    return _MODES[name]
