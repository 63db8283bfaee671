"""Which sub-metrics of a location metric a device answers, and when, drawn from its secret
alone.

The draws are independent of every place, of the clock and of how the app is used, so whoever sees
that a device answers, and when, learns nothing of where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from client_sdk.randomisation.key_derivation import draw
from rappor_core.errors import ParameterError
from rappor_core.metrics.location import Location
from rappor_core.metrics.metric import Metric


class Assignment(NamedTuple):
    """The level, slots and turns in which one device answers one location metric.

    level: of the grid, the same for every slot.  names: of the sub-metrics, by slot.
    every, phase: in period p the slot of index s is answered where
        (p * slots + s) % every == phase; every = 1: always; every = 0: only the slot of index
        `phase`, once for life.
    hold: for so many periods the last known place of a slot stands for one without a fix.
    fresh: the phase of each block of `every` (period, slot), by the block's number, instead of
        `phase`; None: `phase` holds for life.
    """

    level: int
    slots: tuple[str, ...]
    names: tuple[str, ...]
    every: int
    phase: int
    hold: int = 0
    fresh: Callable[[int], int] | None = None

    def due(self, period: int) -> list[tuple[str, str]]:
        """List slot and sub-metric of each report of a period."""
        pairs = list(zip(self.slots, self.names, strict=True))
        if self.every == 0:
            return [pairs[self.phase]]
        first = period * len(pairs)
        phase = self.phase if self.fresh is None else self.fresh(first // self.every)
        return [p for i, p in enumerate(pairs) if (first + i) % self.every == phase]

    def answers_from(self, period: int) -> list[tuple[int, str]]:
        """List period and slot of each answer that may be the usual place of this period.

        Its own, and those of the `hold` periods after it. With fresh turns no block answers with
        what another one saw, so that its epsilon covers all that happened in it.
        """
        end = period + self.hold + 1
        if self.fresh is not None:
            window = self.every // len(self.slots)
            end = min(end, (period // window + 1) * window)
        return [(turn, slot) for turn in range(period, end) for slot, _ in self.due(turn)]


def assignment_of(secret: bytes, parts: Sequence[Metric]) -> Assignment:
    """Draw a device's assignment. parts: all sub-metrics of one declared name, in order.

    Raises ParameterError for a metric of another kind.
    """
    location = parts[0].location
    if location is None:
        raise ParameterError(f"metric {parts[0].name!r} is not of kind 'location'")
    base = parts[0].base_name
    level = location.grid.levels[draw(secret, b"level", base, len(location.grid.levels))]
    names = tuple(part.name for part in parts if _place(part).level == level)
    slots = tuple(slot.name for slot in location.slots)
    every = location.rules.every(location)
    if location.turn == "fresh":

        @lru_cache(maxsize=4)
        def fresh(block: int) -> int:
            return draw(secret, b"turn", base, every, block.to_bytes(8, "big"))

        return Assignment(level, slots, names, every, 0, location.hold, fresh)
    phase = draw(secret, b"phase", base, every or len(slots))
    return Assignment(level, slots, names, every, phase, location.hold)


def _place(metric: Metric) -> Location:
    assert metric.location is not None  # noqa: S101 (parts of one metric are all of one kind)
    return metric.location
