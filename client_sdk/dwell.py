"""How long a device was where, in one period: on the device only, bounded, and then forgotten."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest
from typing import Any

MOST_PLACES = 512  # of one slot and period; past it the half with less time is forgotten

Place = int | str  # a cell's code, a pair of cells as text; OUTSIDE
OUTSIDE: Place = -1


class Dwell:
    """Seconds (or trips) by slot and place. Private: nothing of it but the usual place is used."""

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
        """See that a place has some time, so that it is not lost if no more comes."""
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


class Periods:
    """A set of period numbers, kept as runs: what has been reported, for life, in little room."""

    MOST_RUNS = 256

    __slots__ = ("_runs",)

    def __init__(self, runs: Iterable[Iterable[int]] = ()) -> None:
        """runs: as `runs` gave them."""
        self._runs: list[list[int]] = [list(run) for run in runs]

    def __contains__(self, period: int) -> bool:
        """Whether a period was added, or lies in a gap that was closed to save room."""
        return any(first <= period <= last for first, last in self._runs)

    def add(self, period: int) -> None:
        """Add a period. Past 256 runs the narrowest gap is closed: rather silent than twice."""
        if period in self:
            return
        runs = sorted([*self._runs, [period, period]])
        merged = [runs[0]]
        for first, last in runs[1:]:
            if first <= merged[-1][1] + 1:
                merged[-1][1] = max(merged[-1][1], last)
            else:
                merged.append([first, last])
        if len(merged) > self.MOST_RUNS:
            at = min(range(len(merged) - 1), key=lambda i: merged[i + 1][0] - merged[i][1])
            merged[at : at + 2] = [[merged[at][0], merged[at + 1][1]]]
        self._runs = merged

    def runs(self) -> list[Any]:
        """List the runs, for the state."""
        return self._runs
