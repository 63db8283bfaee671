"""Quadkeys (the tiles of Web Mercator) as a grid of cells, which nest exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rappor_core.errors import ValueRefusedError
from rappor_core.grid.box import Box, Point, rectangle, spans
from rappor_core.grid.morton import interleave, separate

MERCATOR_LATITUDE = 85.0511287798066  # where the square of Web Mercator ends
_RADIANS = math.pi / 180
_PER_TURN = 1 / (2 * math.pi)


class Quadkey:
    """Web Mercator tiles, levels 1 to 28; a digit a level, so that prefixes are parents."""

    levels = range(1, 29)

    def cell(self, latitude: float, longitude: float, level: int) -> int:
        """Interleave column and row; beyond the Mercator square the last row takes all."""
        x, y = self._tile(latitude, longitude, level)
        return interleave(x, y)

    def parent(self, cell: int, level: int, coarser: int) -> int:
        """The containing tile of a coarser level: the quadkey without its last digits."""
        return cell >> 2 * (level - coarser)

    def name(self, cell: int, level: int) -> str:
        """Write one digit of 0 to 3 a level."""
        return "".join(str(cell >> 2 * i & 3) for i in range(level - 1, -1, -1))

    def parse(self, name: str) -> tuple[int, int]:
        """Read the digits of a quadkey into the tile and its level."""
        if not 1 <= len(name) <= 28 or set(name) - set("0123"):
            raise ValueRefusedError(f"{name[:40]!r} is not a quadkey")
        return int(name, 4), len(name)

    def outline(self, cell: int, level: int) -> tuple[Point, ...]:
        """The four corners of the tile."""
        x, y = separate(cell)
        size = 1 << level
        south, north = (math.degrees(math.atan(math.sinh(math.pi * (1 - 2 * row / size))))
                        for row in (y + 1, y))  # fmt: skip
        return rectangle(south, x / size * 360 - 180, north, (x + 1) / size * 360 - 180)

    def count_in_box(self, box: Box, level: int) -> int:
        """Number of tiles that share a point with the box: rows times columns."""
        rows, spans = self._ranges(box, level)
        return len(rows) * sum(map(len, spans))

    def in_box(self, box: Box, level: int) -> Iterator[int]:
        """Yield the tiles that share a point with the box, row by row."""
        rows, spans = self._ranges(box, level)
        return (interleave(x, y) for y in rows for span in spans for x in span)

    def _tile(self, latitude: float, longitude: float, level: int) -> tuple[int, int]:
        size = 1 << level
        sine = math.sin(latitude * _RADIANS)
        down = 0.5 - math.atanh(sine) * _PER_TURN if -1 < sine < 1 else -sine
        x, y = int((longitude + 180) / 360 * size), int(down * size)
        return (x if x < size else size - 1), (0 if y < 0 else y if y < size else size - 1)

    def _ranges(self, box: Box, level: int) -> tuple[range, list[range]]:
        west, bottom = self._tile(box.south, box.west, level)
        east, top = self._tile(box.north, box.east, level)
        return range(top, bottom + 1), spans(west, east, 1 << level, box)
