"""Systems of cells as integer codes: quadkeys and geohashes (squares: `grid_square`).

All nest exactly: the parent of a cell is found from its code alone, and holds every point
that the cell holds. Latitudes and longitudes are degrees, north and east positive.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

from rappor_core.errors import ParameterError, ValueRefusedError
from rappor_core.frozen import Frozen

MERCATOR_LATITUDE = 85.0511287798066  # where the square of Web Mercator ends
GEOHASH_ALPHABET = "0123456789bcdefghjkmnpqrstuvwxyz"
_SPREAD = (  # step i moves the upper half of each group of bits away from the lower
    (16, 0x0000FFFF0000FFFF),
    (8, 0x00FF00FF00FF00FF),
    (4, 0x0F0F0F0F0F0F0F0F),
    (2, 0x3333333333333333),
    (1, 0x5555555555555555),
)
_RADIANS = math.pi / 180
_PER_TURN = 1 / (2 * math.pi)

Point = tuple[float, float]  # latitude, longitude


class Box(Frozen):
    """A box of degrees, its edges included; `west` above `east` crosses the antimeridian.

    Raises ParameterError for anything that is not a box on the globe.
    """

    south: float
    west: float
    north: float
    east: float

    def __post_init__(self) -> None:
        """Refuse what is not a number, out of range, or empty."""
        for name, limit in (("south", 90), ("west", 180), ("north", 90), ("east", 180)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ParameterError(f"box: {name} = {value!r} is not a number of degrees")
            if not -limit <= value <= limit:
                raise ParameterError(f"box: {name} = {value!r} is not between -{limit} and {limit}")
        if self.south >= self.north or self.west == self.east:
            raise ParameterError(
                f"box: {self} is empty; give south, west, north, east, with south < north"
            )

    @property
    def width(self) -> float:
        """Degrees of longitude from west to east."""
        return self.east - self.west + (360.0 if self.west > self.east else 0.0)

    def holds(self, latitude: float, longitude: float) -> bool:
        """Whether a point (longitude in [-180, 180]) lies in the box or on its edge."""
        if not self.south <= latitude <= self.north:
            return False
        if self.west <= self.east:
            return self.west <= longitude <= self.east
        return longitude >= self.west or longitude <= self.east


class CellSystem(Protocol):
    """How points become cells. A cell is an integer that means something at its level only."""

    @property
    def levels(self) -> range:
        """The levels there are, coarse to fine."""
        ...

    def cell(self, latitude: float, longitude: float, level: int) -> int:
        """Find the cell that holds a point of the globe."""
        ...

    def parent(self, cell: int, level: int, coarser: int) -> int:
        """Find the cell of level `coarser` <= `level` that holds it."""
        ...

    def name(self, cell: int, level: int) -> str:
        """Write it as the text that devices encode and maps show."""
        ...

    def parse(self, name: str) -> tuple[int, int]:
        """Read `name`'s form: the cell and its level. Raises ValueRefusedError."""
        ...

    def outline(self, cell: int, level: int) -> tuple[Point, ...]:
        """List its corners, counter-clockwise, the first not repeated."""
        ...

    def count_in_box(self, box: Box, level: int) -> int:
        """Count (or estimate from above) the cells of `in_box`."""
        ...

    def in_box(self, box: Box, level: int) -> Iterator[int]:
        """List every cell that shares a point with the box."""
        ...


class Quadkey:
    """Web Mercator tiles, levels 1 to 28; a digit a level, so that prefixes are parents."""

    levels = range(1, 29)

    def cell(self, latitude: float, longitude: float, level: int) -> int:
        """Interleave column and row; beyond the Mercator square the last row takes all."""
        x, y = self._tile(latitude, longitude, level)
        return _interleave(x, y)

    def parent(self, cell: int, level: int, coarser: int) -> int:
        """Drop the last digits."""
        return cell >> 2 * (level - coarser)

    def name(self, cell: int, level: int) -> str:
        """Write one digit of 0 to 3 a level."""
        return "".join(str(cell >> 2 * i & 3) for i in range(level - 1, -1, -1))

    def parse(self, name: str) -> tuple[int, int]:
        """Read the digits."""
        if not 1 <= len(name) <= 28 or set(name) - set("0123"):
            raise ValueRefusedError(f"{name[:40]!r} is not a quadkey")
        return int(name, 4), len(name)

    def outline(self, cell: int, level: int) -> tuple[Point, ...]:
        """Corners of the tile."""
        x, y = _separate(cell)
        size = 1 << level
        south, north = (math.degrees(math.atan(math.sinh(math.pi * (1 - 2 * row / size))))
                        for row in (y + 1, y))  # fmt: skip
        return rectangle(south, x / size * 360 - 180, north, (x + 1) / size * 360 - 180)

    def count_in_box(self, box: Box, level: int) -> int:
        """Rows by columns."""
        rows, spans = self._ranges(box, level)
        return len(rows) * sum(map(len, spans))

    def in_box(self, box: Box, level: int) -> Iterator[int]:
        """Row by row."""
        rows, spans = self._ranges(box, level)
        return (_interleave(x, y) for y in rows for span in spans for x in span)

    def _tile(self, latitude: float, longitude: float, level: int) -> tuple[int, int]:
        size = 1 << level
        sine = math.sin(latitude * _RADIANS)
        down = 0.5 - math.atanh(sine) * _PER_TURN if -1 < sine < 1 else -sine
        x, y = int((longitude + 180) / 360 * size), int(down * size)
        return (x if x < size else size - 1), (0 if y < 0 else y if y < size else size - 1)

    def _ranges(self, box: Box, level: int) -> tuple[range, list[range]]:
        west, bottom = self._tile(box.south, box.west, level)
        east, top = self._tile(box.north, box.east, level)
        return range(top, bottom + 1), _spans(west, east, 1 << level, box)


class Geohash:
    """Geohashes, levels 1 to 12; a character (5 bits) a level, so that prefixes are parents."""

    levels = range(1, 13)

    def cell(self, latitude: float, longitude: float, level: int) -> int:
        """Interleave the bits of longitude (first) and latitude."""
        x, y = self._indices(latitude, longitude, level)
        return self._join(x, y, level)

    def parent(self, cell: int, level: int, coarser: int) -> int:
        """Drop the last characters."""
        return cell >> 5 * (level - coarser)

    def name(self, cell: int, level: int) -> str:
        """Write one character of the base-32 alphabet a level."""
        return "".join(GEOHASH_ALPHABET[cell >> 5 * i & 31] for i in range(level - 1, -1, -1))

    def parse(self, name: str) -> tuple[int, int]:
        """Read the characters."""
        if not 1 <= len(name) <= 12 or set(name) - set(GEOHASH_ALPHABET):
            raise ValueRefusedError(f"{name[:40]!r} is not a geohash")
        cell = 0
        for character in name:
            cell = cell << 5 | GEOHASH_ALPHABET.index(character)
        return cell, len(name)

    def outline(self, cell: int, level: int) -> tuple[Point, ...]:
        """Corners of the rectangle."""
        low, high = _separate(cell)
        x, y = (low, high) if level % 2 else (high, low)
        columns, rows = self._shape(level)
        south, north = (180 * row / rows - 90 for row in (y, y + 1))
        return rectangle(south, 360 * x / columns - 180, north, 360 * (x + 1) / columns - 180)

    def count_in_box(self, box: Box, level: int) -> int:
        """Rows by columns."""
        rows, spans = self._ranges(box, level)
        return len(rows) * sum(map(len, spans))

    def in_box(self, box: Box, level: int) -> Iterator[int]:
        """Row by row."""
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
        return _interleave(x, y) if level % 2 else _interleave(y, x)

    def _ranges(self, box: Box, level: int) -> tuple[range, list[range]]:
        columns, _ = self._shape(level)
        west, bottom = self._indices(box.south, box.west, level)
        east, top = self._indices(box.north, box.east, level)
        return range(bottom, top + 1), _spans(west, east, columns, box)


def _spans(west: int, east: int, columns: int, box: Box) -> list[range]:
    """Columns of a box, in two runs where it crosses the antimeridian."""
    if box.west <= box.east:
        return [range(west, east + 1)]
    if east >= west:  # both edges in one column, and the box goes all the way around
        return [range(columns)]
    return [range(west, columns), range(east + 1)]


def rectangle(south: float, west: float, north: float, east: float) -> tuple[Point, ...]:
    """List the corners of a rectangle of degrees, counter-clockwise from the south-west."""
    return (south, west), (south, east), (north, east), (north, west)


def _interleave(low: int, high: int) -> int:
    """Bits of `low` to the even places, of `high` to the odd ones; both below 2**32."""
    return _spread(low) | _spread(high) << 1


def _spread(bits: int) -> int:
    for shift, mask in _SPREAD:
        bits = (bits | bits << shift) & mask
    return bits


def _separate(code: int) -> tuple[int, int]:
    """The inverse of `_interleave`: the even places, then the odd ones."""
    return _gather(code), _gather(code >> 1)


def _gather(bits: int) -> int:
    bits &= _SPREAD[-1][1]
    masks = [mask for _, mask in reversed(_SPREAD[:-1])] + [0xFFFFFFFF]
    for (shift, _), mask in zip(reversed(_SPREAD), masks, strict=True):
        bits = (bits | bits >> shift) & mask
    return bits
