"""Adds up how long the device was in each cell during a period; on the device only, bounded,
then forgotten."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest

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
