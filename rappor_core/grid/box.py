"""Boxes of degrees, and what every system of cells can do.

Latitudes and longitudes are degrees, north and east positive.
"""

from collections.abc import Iterator
from typing import Protocol

from rappor_core.errors import ParameterError, shown
from rappor_core.frozen import Frozen

OTHER = "other"  # of a location: outside the grid, past the cap, and no data unless it is apart
NO_DATA = "no_data"  # of a location that declares it: a slot and period without a fix
RESERVED = (OTHER, NO_DATA)  # in the order in which they follow the cells of a grid
Point = tuple[float, float]  # latitude, longitude


class Box(Frozen):
    """A rectangle of degrees, edges included; `west` above `east` crosses the antimeridian.

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
                raise ParameterError(f"box: {name} = {shown(value)} is not a number of degrees")
            if not -limit <= value <= limit:
                raise ParameterError(f"box: {name} = {value!r} is not between -{limit} and {limit}")
        if self.south >= self.north or self.west == self.east:
            raise ParameterError(
                f"box: {[self.south, self.west, self.north, self.east]} is empty; give south, "
                "west, north, east, with south < north"
            )

    @property
    def width(self) -> float:
        """Width of the box in degrees of longitude, from west to east."""
        return self.east - self.west + (360.0 if self.west > self.east else 0.0)

    def holds(self, latitude: float, longitude: float) -> bool:
        """Return whether a point (longitude in [-180, 180]) lies in the box or on its edge."""
        if not self.south <= latitude <= self.north:
            return False
        if self.west <= self.east:
            return self.west <= longitude <= self.east
        return longitude >= self.west or longitude <= self.east


class CellSystem(Protocol):
    """How points become cells of a grid. A cell is an integer that is unique within its level."""

    @property
    def levels(self) -> range:
        """The levels of the grid, coarse to fine."""
        ...

    def cell(self, latitude: float, longitude: float, level: int) -> int:
        """Find the cell that holds a point of the globe."""
        ...

    def parent(self, cell: int, level: int, coarser: int) -> int:
        """Return the cell of level `coarser` <= `level` that contains a cell."""
        ...

    def name(self, cell: int, level: int) -> str:
        """Return the text of a cell, as devices encode it and maps show it."""
        ...

    def parse(self, name: str) -> tuple[int, int]:
        """Read the text of a cell into the cell and its level. Raises ValueRefusedError."""
        ...

    def outline(self, cell: int, level: int) -> tuple[Point, ...]:
        """Return the corners of a cell, counter-clockwise, the first not repeated."""
        ...

    def count_in_box(self, box: Box, level: int) -> int:
        """Count (or estimate from above) the cells of `in_box`."""
        ...

    def in_box(self, box: Box, level: int) -> Iterator[int]:
        """List every cell that shares a point with the box."""
        ...


def spans(west: int, east: int, columns: int, box: Box) -> list[range]:
    """Return the columns that a box covers, in two runs where it crosses the antimeridian."""
    if box.west <= box.east:
        return [range(west, east + 1)]
    if east >= west:  # both edges in one column, and the box goes all the way around
        return [range(columns)]
    return [range(west, columns), range(east + 1)]


def rectangle(south: float, west: float, north: float, east: float) -> tuple[Point, ...]:
    """List the corners of a rectangle of degrees, counter-clockwise from the south-west."""
    return (south, west), (south, east), (north, east), (north, west)
