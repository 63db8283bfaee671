"""Boxes in degrees, and the interface that every cell system implements.

Latitudes and longitudes are degrees, north and east positive.
"""

from collections.abc import Iterator
from typing import Protocol

from rappor_core.errors import ParameterError, shown
from rappor_core.frozen import Frozen

OTHER = "other"  # outside the grid, over the cap, or no data (if `no_data` is undeclared)
NO_DATA = "no_data"  # no fix in a slot and period, if the location declares this value
RESERVED = (OTHER, NO_DATA)  # in the order in which they come after the cells of a grid
Point = tuple[float, float]  # latitude, longitude


class Box(Frozen):
    """A rectangle in degrees, edges included; it crosses the antimeridian if `west` > `east`.

    Raises ParameterError if the values are not a box on the globe.
    """

    south: float
    west: float
    north: float
    east: float

    def __post_init__(self) -> None:
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
        """Return the width of the box in degrees of longitude, from west to east."""
        return self.east - self.west + (360.0 if self.west > self.east else 0.0)

    def holds(self, latitude: float, longitude: float) -> bool:
        """Return whether a point (longitude in [-180, 180]) lies in the box or on its edge."""
        if not self.south <= latitude <= self.north:
            return False
        if self.west <= self.east:
            return self.west <= longitude <= self.east
        return longitude >= self.west or longitude <= self.east


class CellSystem(Protocol):
    """A scheme that divides the globe into cells. A cell is an integer, unique within its level."""

    @property
    def levels(self) -> range:
        """Return the levels of the grid, from coarse to fine."""
        ...

    def cell(self, latitude: float, longitude: float, level: int) -> int:
        """Return the cell that contains a point on the globe."""
        ...

    def parent(self, cell: int, level: int, coarser: int) -> int:
        """Return the cell at level `coarser` (at most `level`) that contains a cell."""
        ...

    def name(self, cell: int, level: int) -> str:
        """Return the text form of a cell, which devices encode and maps show."""
        ...

    def parse(self, name: str) -> tuple[int, int]:
        """Parse a cell's text form into cell and level. Raises ValueRefusedError if invalid."""
        ...

    def outline(self, cell: int, level: int) -> tuple[Point, ...]:
        """Return the corners of a cell, counter-clockwise, without repeating the first."""
        ...

    def count_in_box(self, box: Box, level: int) -> int:
        """Return the number of cells that `in_box` yields, or an upper bound on it."""
        ...

    def in_box(self, box: Box, level: int) -> Iterator[int]:
        """Yield every cell that shares a point with the box."""
        ...


def spans(west: int, east: int, columns: int, box: Box) -> list[range]:
    """Return the columns between a box's edges; two ranges if it crosses the antimeridian."""
    if box.west <= box.east:
        return [range(west, east + 1)]
    if east >= west:  # both edges lie in one column, and the box wraps around the globe
        return [range(columns)]
    return [range(west, columns), range(east + 1)]


def rectangle(south: float, west: float, north: float, east: float) -> tuple[Point, ...]:
    """Return the corners of a rectangle in degrees, counter-clockwise from the south-west."""
    return (south, west), (south, east), (north, east), (north, west)
