"""Locations as values: a fixed public grid over a box, and the cells for a point, box or region.

The grid and its box are part of the metric's definition and are never derived from data. A point
outside the box has the value `OTHER`. A device also reports `OTHER` after its cap is used up, and
if it has no data and the metric does not declare `no_data`. A report never reveals the reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any, Literal, get_args

from rappor_core.errors import ParameterError, ValueRefusedError, check_whole, shown
from rappor_core.frozen import Frozen
from rappor_core.grid.box import OTHER as OTHER
from rappor_core.grid.box import Box, CellSystem, Point, rectangle
from rappor_core.grid.prefix_cells import MERCATOR_LATITUDE, Geohash, Quadkey


class Square:
    """A cell system of `rows` x `columns` cells over a box at level 0.

    Each additional level doubles both numbers. Cells are squares in degrees, so they are rectangles
    on the ground. Names are `level-row-column`, counted from the south-west corner.
    """

    levels = range(13)

    def __init__(self, box: Box, rows: int, columns: int) -> None:
        for name, value in (("rows", rows), ("columns", columns)):
            check_whole(name, value, 1, 4096)
        self._box = box
        self._rows = rows
        self._columns = columns

    def cell(self, latitude: float, longitude: float, level: int) -> int:
        """Return the cell of a point; a point outside the box belongs to the nearest edge cell."""
        y, x = self._indices(latitude, longitude, level)
        return y * (self._columns << level) + x

    def parent(self, cell: int, level: int, coarser: int) -> int:
        """Return the cell of a coarser level that contains a cell."""
        y, x = divmod(cell, self._columns << level)
        step = level - coarser
        return (y >> step) * (self._columns << coarser) + (x >> step)

    def name(self, cell: int, level: int) -> str:
        """Return the name of a cell, `level-row-column`."""
        y, x = divmod(cell, self._columns << level)
        return f"{level}-{y}-{x}"

    def parse(self, name: str) -> tuple[int, int]:
        """Parse `level-row-column` into the cell and its level."""
        parts = name.split("-")
        if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts):
            raise ValueRefusedError(f"{name[:40]!r} is not a square level-row-column")
        level, y, x = map(int, parts)
        if level not in self.levels or y >= self._rows << level or x >= self._columns << level:
            raise ValueRefusedError(f"{name[:40]!r} lies outside the rows and columns of the grid")
        return y * (self._columns << level) + x, level

    def outline(self, cell: int, level: int) -> tuple[Point, ...]:
        """Return the corners of a cell's rectangle; longitudes may exceed 180 if the box's do."""
        y, x = divmod(cell, self._columns << level)
        box, rows, columns = self._box, self._rows << level, self._columns << level
        south, north = (box.south + (box.north - box.south) * row / rows for row in (y, y + 1))
        west, east = (box.west + box.width * column / columns for column in (x, x + 1))
        return rectangle(south, west, north, east)

    def count_in_box(self, box: Box, level: int) -> int:
        """Return the number of cells that share a point with the box."""
        rows, columns = self._ranges(box, level)
        return len(rows) * len(columns)

    def in_box(self, box: Box, level: int) -> Iterator[int]:
        """Yield the cells of the grid that share a point with the box, row by row."""
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
        """Return the rows and columns of the overlap between a box and the grid's box."""
        edges, columns = self._box, self._columns << level
        if box.south > edges.north or box.north < edges.south:
            return (), ()
        bottom, _ = self._indices(max(box.south, edges.south), edges.west, level)
        top, _ = self._indices(min(box.north, edges.north), edges.west, level)
        in_range: set[int] = set()
        for turn in (-360, 0, 360):
            ahead = (box.west + turn - edges.west) / edges.width * columns
            end = ahead + box.width / edges.width * columns
            if ahead <= columns and end >= 0:
                first, last = (min(max(int(at), 0), columns - 1) for at in (ahead, end))
                in_range.update(range(first, last + 1))
        return range(bottom, top + 1), sorted(in_range)


GridKind = Literal["quadkey", "geohash", "square", "h3"]

PAIR_SEPARATOR = ">"
MAX_CELLS = 1_000_000
MAX_PAIRS = 40_000  # the maximum number of cell pairs that a map can show


class Grid(Frozen):
    """A cell system over a box, used at one or more levels from coarse to fine.

    Raises ParameterError, which names the bad value.
    """

    kind: GridKind  # `h3` is an extra: pip install 'rappor-telemetry[h3]'
    box: Box  # the area that the grid covers
    levels: tuple[int, ...]  # increasing; a point is located at the last (finest) level first
    rows: int = 0  # the number of rows of a `square` grid at level 0; 0 for other kinds
    columns: int = 0

    def __post_init__(self) -> None:
        if self.kind not in get_args(GridKind):
            raise ParameterError(
                f"grid = {shown(self.kind)} is not one of {', '.join(get_args(GridKind))}"
            )
        if self.kind != "square" and (self.rows or self.columns):
            raise ParameterError(f"rows and columns go with grid = 'square', not {self.kind!r}")
        if self.kind == "quadkey" and max(-self.box.south, self.box.north) > MERCATOR_LATITUDE:
            raise ParameterError(
                f"{self.box}: quadkeys end at latitude {MERCATOR_LATITUDE:.4f}; "
                "use a smaller box, or grid = 'geohash' or 'h3'"
            )
        self._check_levels()

    def _check_levels(self) -> None:
        levels = self.system.levels
        for level in self.levels:
            if type(level) is not int or level not in levels:
                raise ParameterError(
                    f"level {shown(level)}: grid {self.kind!r} has levels "
                    f"{levels[0]} to {levels[-1]}"
                )
        if not self.levels or list(self.levels) != sorted(set(self.levels)):
            raise ParameterError(f"levels = {list(self.levels)} must increase; give one or more")

    @cached_property
    def system(self) -> CellSystem:
        """Return the cell system."""
        return _system(self)

    @property
    def library(self) -> str:
        """Return the library that an app needs to compute cells, or "" if none is needed."""
        return "h3" if self.kind == "h3" else ""

    @property
    def finest(self) -> int:
        """Return the finest level, at which points are located."""
        return self.levels[-1]

    def locate(self, latitude: float, longitude: float) -> int | None:
        """Return the finest cell that contains a point.

        Args:
            latitude: The latitude in degrees. Private.
            longitude: The longitude in degrees, modulo 360. Private.

        Returns:
            The code of the cell, or None if the point is outside the box. Private.

        Raises:
            ValueRefusedError: The numbers are not a point on the globe, or are swapped. The message
                never contains them.
        """
        box = self.box
        try:
            inside = box.south <= latitude <= box.north and box.west <= longitude <= box.east
            latitude, longitude = latitude + 0.0, longitude + 0.0
            if not inside:
                longitude = self._wrapped(latitude, longitude)
                if not box.holds(latitude, longitude):
                    return None
            return self.system.cell(latitude, longitude, self.finest)
        except (TypeError, OverflowError):  # a Decimal, or a number with hundreds of digits
            raise _not_a_point(latitude, longitude) from None

    def _wrapped(self, latitude: float, longitude: float) -> float:
        """Return the longitude in [-180, 180], on the same side of the antimeridian as the box."""
        if not (math.isfinite(latitude) and math.isfinite(longitude)):
            raise ValueRefusedError("a latitude or longitude is not a finite number")
        if not -360 <= longitude <= 360:
            raise ValueRefusedError("a longitude is not between -360 and 360 degrees")
        wrapped = (longitude + 180) % 360 - 180
        if wrapped == -180 and not self.box.holds(latitude, wrapped):
            wrapped = 180.0
        if abs(longitude) <= 90 and self.box.holds(longitude, latitude):
            raise ValueRefusedError(
                "the point lies in the metric's box only with latitude and longitude swapped; "
                "pass the latitude first"
            )
        if not -90 <= latitude <= 90:
            raise ValueRefusedError("a latitude is not between -90 and 90 degrees")
        return wrapped

    def value(self, cell: int | None, level: int) -> str:
        """Return the value to report at a level for a cell of the finest level.

        Args:
            cell: The code of the finest cell, or None for a point outside the box. Private.
            level: A level of the grid, at most the finest one.

        Returns:
            The name of the cell's parent at that level, or `OTHER` for None. Private.
        """
        if cell is None:
            return OTHER
        return self.system.name(self.system.parent(cell, self.finest, level), level)

    def place(self, latitude: float, longitude: float, level: int) -> str:
        """Return the value of a point at a level.

        Args:
            latitude: The latitude in degrees. Private.
            longitude: The longitude in degrees, modulo 360. Private.
            level: A level of the grid, at most the finest one.

        Returns:
            The name of a cell, or `OTHER`. Private.

        Raises:
            ValueRefusedError: The point is invalid (see `locate`).
        """
        return self.value(self.locate(latitude, longitude), level)

    def cells(self, level: int) -> tuple[str, ...]:
        """Return the cell names at a level, sorted by code: the metric's domain without `OTHER`.

        Coarser levels contain the parents of the finest cells, so that the hierarchy is complete.
        Raises ParameterError if there are more than a million finest cells.
        """
        finest = self.finest if self.kind == "h3" else level
        finest_codes = self.codes(self.box, finest)
        codes = sorted({self.system.parent(cell, finest, level) for cell in finest_codes})
        return tuple(self.system.name(cell, level) for cell in codes)

    def codes(self, box: Box, level: int) -> Iterable[int]:
        """Return the codes of the cells that share a point with a box.

        Args:
            box: The box; it may extend beyond the grid's box.
            level: A level of the grid.

        Raises:
            ParameterError: The box covers more than `MAX_CELLS` cells.
        """
        count = self.system.count_in_box(box, level)
        if count > MAX_CELLS:
            raise ParameterError(
                f"{box} holds about {count:,} cells of level {level}; "
                f"at most {MAX_CELLS:,} are listed: use a smaller box or a coarser level"
            )
        return self.system.in_box(box, level)

    def to_dict(self) -> dict[str, Any]:
        """Return the grid as plain values; `from_dict` is the inverse."""
        box = self.box
        return {
            "kind": self.kind,
            "box": [float(edge) for edge in (box.south, box.west, box.north, box.east)],
            "levels": list(self.levels),
            "rows": self.rows,
            "columns": self.columns,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Grid:
        """Read the plain values that `to_dict` returns. Raises ParameterError if invalid."""
        if set(fields) != {"kind", "box", "levels", "rows", "columns"}:
            raise ParameterError(f"a grid has unknown or missing keys: {sorted(fields)}")
        return cls(
            fields["kind"],
            Box(*fields["box"]),
            tuple(fields["levels"]),
            fields["rows"],
            fields["columns"],
        )


def _system(grid: Grid) -> CellSystem:
    if grid.kind == "quadkey":
        return Quadkey()
    if grid.kind == "geohash":
        return Geohash()
    if grid.kind == "square":
        return Square(grid.box, grid.rows, grid.columns)
    try:  # the library is optional, so it is imported only if a metric needs it
        module = import_module("rappor_core.grid.h3")
    except ModuleNotFoundError as error:
        raise ParameterError(
            "grid = 'h3' needs the h3 library: pip install 'rappor-telemetry[h3]', "
            "or use grid = 'quadkey', which needs nothing"
        ) from error
    system: CellSystem = module.H3()
    return system


def _not_a_point(latitude: object, longitude: object) -> ValueRefusedError:
    kinds = f"{type(latitude).__name__} and {type(longitude).__name__}"
    return ValueRefusedError(f"a point is two numbers of degrees, not {kinds}")
