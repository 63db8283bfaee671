"""Rows and columns over a box: a system of cells that needs no standard, only a box."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rappor_core.errors import ValueRefusedError, check_whole
from rappor_core.grid.box import Box, Point, rectangle


class Square:
    """Rows and columns over a box: `rows` x `columns` at level 0, twice as many a level after.

    Squares of degrees, so rectangles on the ground; names are `level-row-column`, from south-west.
    """

    levels = range(13)

    def __init__(self, box: Box, rows: int, columns: int) -> None:
        for name, value in (("rows", rows), ("columns", columns)):
            check_whole(name, value, 1, 4096)
        self._box = box
        self._rows = rows
        self._columns = columns

    def cell(self, latitude: float, longitude: float, level: int) -> int:
        """Number rows from the south; points beyond the box go to the nearest edge."""
        y, x = self._indices(latitude, longitude, level)
        return y * (self._columns << level) + x

    def parent(self, cell: int, level: int, coarser: int) -> int:
        """The containing cell of a coarser level: row and column halved for each level between."""
        y, x = divmod(cell, self._columns << level)
        step = level - coarser
        return (y >> step) * (self._columns << coarser) + (x >> step)

    def name(self, cell: int, level: int) -> str:
        """Write level, row and column."""
        y, x = divmod(cell, self._columns << level)
        return f"{level}-{y}-{x}"

    def parse(self, name: str) -> tuple[int, int]:
        """Read `level-row-column` into the cell and its level."""
        parts = name.split("-")
        if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts):
            raise ValueRefusedError(f"{name[:40]!r} is not a square level-row-column")
        level, y, x = map(int, parts)
        if level not in self.levels or y >= self._rows << level or x >= self._columns << level:
            raise ValueRefusedError(f"{name[:40]!r} lies outside the rows and columns of the grid")
        return y * (self._columns << level) + x, level

    def outline(self, cell: int, level: int) -> tuple[Point, ...]:
        """The four corners of the cell's rectangle; longitudes may pass 180 if the box does."""
        y, x = divmod(cell, self._columns << level)
        box, rows, columns = self._box, self._rows << level, self._columns << level
        south, north = (box.south + (box.north - box.south) * row / rows for row in (y, y + 1))
        west, east = (box.west + box.width * column / columns for column in (x, x + 1))
        return rectangle(south, west, north, east)

    def count_in_box(self, box: Box, level: int) -> int:
        """Number of cells that share a point with the box: rows times columns."""
        rows, columns = self._ranges(box, level)
        return len(rows) * len(columns)

    def in_box(self, box: Box, level: int) -> Iterator[int]:
        """Yield the cells that share a point with the box, within the grid's own, row by row."""
        rows, columns = self._ranges(box, level)
        return (y * (self._columns << level) + x for y in rows for x in columns)

    def _indices(self, latitude: float, longitude: float, level: int) -> tuple[int, int]:
        box, rows, columns = self._box, self._rows << level, self._columns << level
        up = (latitude - box.south) / (box.north - box.south)
        ahead = longitude - box.west
        across = (ahead + 360 if ahead < 0 and box.west > box.east else ahead) / box.width
        y = min(max(int(up * rows), 0), rows - 1)
        return y, min(max(int(across * columns), 0), columns - 1)

    def _ranges(self, box: Box, level: int) -> tuple[Sequence[int], Sequence[int]]:
        """Rows and columns of what a box and the grid's own have in common, if anything."""
        own, columns = self._box, self._columns << level
        if box.south > own.north or box.north < own.south:
            return (), ()
        bottom, _ = self._indices(max(box.south, own.south), own.west, level)
        top, _ = self._indices(min(box.north, own.north), own.west, level)
        found: set[int] = set()
        for turn in (-360, 0, 360):
            ahead = (box.west + turn - own.west) / own.width * columns
            end = ahead + box.width / own.width * columns
            if ahead <= columns and end >= 0:
                first, last = (min(max(int(at), 0), columns - 1) for at in (ahead, end))
                found.update(range(first, last + 1))
        return range(bottom, top + 1), sorted(found)
