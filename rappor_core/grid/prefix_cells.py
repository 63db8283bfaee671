"""Quadkeys (the tiles of Web Mercator) and geohashes: cells that nest exactly."""

import math
from collections.abc import Iterator

from rappor_core.errors import ValueRefusedError
from rappor_core.grid.box import Box, Point, rectangle, spans

MERCATOR_LATITUDE = 85.0511287798066  # the northern and southern edge of Web Mercator's square
_RADIANS = math.pi / 180
_PER_TURN = 1 / (2 * math.pi)


class PrefixCells:
    """A cell system that nests exactly: each level adds one character to the cell's name.

    A name without its last characters is the name of the parent.
    """

    levels: range  # from coarse to fine
    alphabet: str  # the characters that names consist of
    bits: int  # the number of bits in a cell's code that one character represents
    noun: str  # the name of the cell system in messages

    def cell(self, latitude: float, longitude: float, level: int) -> int:
        """Return the cell of a point; a point beyond the last row or column is in an edge cell."""
        x, y = self._indices(latitude, longitude, level)
        return self._join(x, y, level)

    def parent(self, cell: int, level: int, coarser: int) -> int:
        """Return the cell at a coarser level that contains a cell; its name is a prefix."""
        return cell >> self.bits * (level - coarser)

    def name(self, cell: int, level: int) -> str:
        """Return the cell's name, with one character per level."""
        last, bits = len(self.alphabet) - 1, self.bits
        return "".join(self.alphabet[cell >> bits * i & last] for i in range(level - 1, -1, -1))

    def parse(self, name: str) -> tuple[int, int]:
        """Parse the characters of a name into the cell and its level."""
        if len(name) not in self.levels or set(name) - set(self.alphabet):
            raise ValueRefusedError(f"{name[:40]!r} is not a {self.noun}")
        cell = 0
        for character in name:
            cell = cell << self.bits | self.alphabet.index(character)
        return cell, len(name)

    def count_in_box(self, box: Box, level: int) -> int:
        """Return the number of cells that share a point with the box: rows times columns."""
        rows, spans = self._ranges(box, level)
        return len(rows) * sum(map(len, spans))

    def in_box(self, box: Box, level: int) -> Iterator[int]:
        """Yield the cells that share a point with the box, row by row."""
        rows, spans = self._ranges(box, level)
        return (self._join(x, y, level) for y in rows for span in spans for x in span)

    def _ranges(self, box: Box, level: int) -> tuple[range, list[range]]:
        columns, _ = self._shape(level)
        west, south = self._indices(box.south, box.west, level)
        east, north = self._indices(box.north, box.east, level)
        rows = range(min(south, north), max(south, north) + 1)
        return rows, spans(west, east, columns, box)

    def _shape(self, level: int) -> tuple[int, int]:
        raise NotImplementedError

    def _indices(self, latitude: float, longitude: float, level: int) -> tuple[int, int]:
        raise NotImplementedError

    def _join(self, x: int, y: int, level: int) -> int:  # noqa: ARG002
        return interleave(x, y)


class Quadkey(PrefixCells):
    """Web Mercator tiles at levels 1 to 28; rows are counted from the north."""

    levels = range(1, 29)
    alphabet = "0123"
    bits = 2
    noun = "quadkey"

    def outline(self, cell: int, level: int) -> tuple[Point, ...]:
        """Return the four corners of the tile."""
        x, y = separate(cell)
        size = 1 << level
        south, north = (math.degrees(math.atan(math.sinh(math.pi * (1 - 2 * row / size))))
                        for row in (y + 1, y))  # fmt: skip
        return rectangle(south, x / size * 360 - 180, north, (x + 1) / size * 360 - 180)

    def _shape(self, level: int) -> tuple[int, int]:
        return 1 << level, 1 << level

    def _indices(self, latitude: float, longitude: float, level: int) -> tuple[int, int]:
        size = 1 << level
        sine = math.sin(latitude * _RADIANS)
        down = 0.5 - math.atanh(sine) * _PER_TURN if -1 < sine < 1 else -sine
        x, y = int((longitude + 180) / 360 * size), int(down * size)
        return (x if x < size else size - 1), (0 if y < 0 else y if y < size else size - 1)


class Geohash(PrefixCells):
    """Geohashes at levels 1 to 12; the first bit of a geohash belongs to the longitude."""

    levels = range(1, 13)
    alphabet = "0123456789bcdefghjkmnpqrstuvwxyz"
    bits = 5
    noun = "geohash"

    def outline(self, cell: int, level: int) -> tuple[Point, ...]:
        """Return the four corners of the cell's rectangle."""
        low, high = separate(cell)
        x, y = (low, high) if level % 2 else (high, low)
        columns, rows = self._shape(level)
        south, north = (180 * row / rows - 90 for row in (y, y + 1))
        return rectangle(south, 360 * x / columns - 180, north, 360 * (x + 1) / columns - 180)

    def _shape(self, level: int) -> tuple[int, int]:
        return 1 << (5 * level + 1) // 2, 1 << 5 * level // 2

    def _indices(self, latitude: float, longitude: float, level: int) -> tuple[int, int]:
        columns, rows = self._shape(level)
        x = min(int((longitude + 180) / 360 * columns), columns - 1)
        return x, min(int((latitude + 90) / 180 * rows), rows - 1)

    def _join(self, x: int, y: int, level: int) -> int:
        return interleave(x, y) if level % 2 else interleave(y, x)


_SPREAD = (  # step i moves the upper half of each bit group away from the lower half
    (16, 0x0000FFFF0000FFFF),
    (8, 0x00FF00FF00FF00FF),
    (4, 0x0F0F0F0F0F0F0F0F),
    (2, 0x3333333333333333),
    (1, 0x5555555555555555),
)


def interleave(low: int, high: int) -> int:
    """Interleave two integers: `low` fills the even bits and `high` the odd bits.

    Both are from 0 to 2**32 - 1.
    """
    return _spread(low) | _spread(high) << 1


def _spread(bits: int) -> int:
    for shift, mask in _SPREAD:
        bits = (bits | bits << shift) & mask
    return bits


def separate(code: int) -> tuple[int, int]:
    """Split a number into its even bits and its odd bits; the inverse of `interleave`."""
    return _gather(code), _gather(code >> 1)


def _gather(bits: int) -> int:
    bits &= _SPREAD[-1][1]
    masks = [mask for _, mask in reversed(_SPREAD[:-1])] + [0xFFFFFFFF]
    for (shift, _), mask in zip(reversed(_SPREAD), masks, strict=True):
        bits = (bits | bits >> shift) & mask
    return bits
