"""Quadkeys (the tiles of Web Mercator) and geohashes, cells that nest exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rappor_core.errors import ValueRefusedError
from rappor_core.grid.box import Box, Point, rectangle, spans

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


_SPREAD = (  # step i moves the upper half of each group of bits away from the lower
    (16, 0x0000FFFF0000FFFF),
    (8, 0x00FF00FF00FF00FF),
    (4, 0x0F0F0F0F0F0F0F0F),
    (2, 0x3333333333333333),
    (1, 0x5555555555555555),
)


def interleave(low: int, high: int) -> int:
    """Put the bits of `low` in the even places and those of `high` in the odd ones.

    low, high: from 0 to 2**32 - 1.
    """
    return _spread(low) | _spread(high) << 1


def _spread(bits: int) -> int:
    for shift, mask in _SPREAD:
        bits = (bits | bits << shift) & mask
    return bits


def separate(code: int) -> tuple[int, int]:
    """The inverse of `interleave`: the integer of the even bits, then that of the odd ones."""
    return _gather(code), _gather(code >> 1)


def _gather(bits: int) -> int:
    bits &= _SPREAD[-1][1]
    masks = [mask for _, mask in reversed(_SPREAD[:-1])] + [0xFFFFFFFF]
    for (shift, _), mask in zip(reversed(_SPREAD), masks, strict=True):
        bits = (bits | bits >> shift) & mask
    return bits
