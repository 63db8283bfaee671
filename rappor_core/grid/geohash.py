"""Geohashes as a grid of cells, which nest exactly."""

from __future__ import annotations

from collections.abc import Iterator

from rappor_core.errors import ValueRefusedError
from rappor_core.grid.box import Box, Point, rectangle, spans
from rappor_core.grid.morton import interleave, separate

GEOHASH_ALPHABET = "0123456789bcdefghjkmnpqrstuvwxyz"


class Geohash:
    """Geohashes, levels 1 to 12; a character (5 bits) a level, so that prefixes are parents."""

    levels = range(1, 13)

    def cell(self, latitude: float, longitude: float, level: int) -> int:
        """Interleave the bits of longitude (first) and latitude."""
        x, y = self._indices(latitude, longitude, level)
        return self._join(x, y, level)

    def parent(self, cell: int, level: int, coarser: int) -> int:
        """The containing cell of a coarser level: the geohash without its last characters."""
        return cell >> 5 * (level - coarser)

    def name(self, cell: int, level: int) -> str:
        """Write one character of the base-32 alphabet a level."""
        return "".join(GEOHASH_ALPHABET[cell >> 5 * i & 31] for i in range(level - 1, -1, -1))

    def parse(self, name: str) -> tuple[int, int]:
        """Read the characters of a geohash into the cell and its level."""
        if not 1 <= len(name) <= 12 or set(name) - set(GEOHASH_ALPHABET):
            raise ValueRefusedError(f"{name[:40]!r} is not a geohash")
        cell = 0
        for character in name:
            cell = cell << 5 | GEOHASH_ALPHABET.index(character)
        return cell, len(name)

    def outline(self, cell: int, level: int) -> tuple[Point, ...]:
        """The four corners of the cell's rectangle."""
        low, high = separate(cell)
        x, y = (low, high) if level % 2 else (high, low)
        columns, rows = self._shape(level)
        south, north = (180 * row / rows - 90 for row in (y, y + 1))
        return rectangle(south, 360 * x / columns - 180, north, 360 * (x + 1) / columns - 180)

    def count_in_box(self, box: Box, level: int) -> int:
        """Number of cells that share a point with the box: rows times columns."""
        rows, spans = self._ranges(box, level)
        return len(rows) * sum(map(len, spans))

    def in_box(self, box: Box, level: int) -> Iterator[int]:
        """Yield the cells that share a point with the box, row by row."""
        rows, spans = self._ranges(box, level)
        return (self._join(x, y, level) for y in rows for span in spans for x in span)

    def _shape(self, level: int) -> tuple[int, int]:
        """Columns and rows at a level: longitude has the odd bit."""
        return 1 << (5 * level + 1) // 2, 1 << 5 * level // 2

    def _indices(self, latitude: float, longitude: float, level: int) -> tuple[int, int]:
        columns, rows = self._shape(level)
        x = min(int((longitude + 180) / 360 * columns), columns - 1)
        return x, min(int((latitude + 90) / 180 * rows), rows - 1)

    def _join(self, x: int, y: int, level: int) -> int:
        return interleave(x, y) if level % 2 else interleave(y, x)

    def _ranges(self, box: Box, level: int) -> tuple[range, list[range]]:
        columns, _ = self._shape(level)
        west, bottom = self._indices(box.south, box.west, level)
        east, top = self._indices(box.north, box.east, level)
        return range(bottom, top + 1), spans(west, east, columns, box)
