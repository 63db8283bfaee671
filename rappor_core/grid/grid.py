"""Places as values: a public, fixed grid over a box, and the cells of a point, box or region.

The grid and its box are part of the metric's definition and never taken from data. A point outside
the box is a value like any other, `OTHER`, which also represents whatever comes after a device has
spent its cap, and for "no data" unless the metric declares `no_data`: reasons that no report
tells apart.
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
        """Return the containing cell of a coarser level: row and column halved for each level
        between."""
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
        """Return the four corners of the cell's rectangle; longitudes may pass 180 if the box
        does."""
        y, x = divmod(cell, self._columns << level)
        box, rows, columns = self._box, self._rows << level, self._columns << level
        south, north = (box.south + (box.north - box.south) * row / rows for row in (y, y + 1))
        west, east = (box.west + box.width * column / columns for column in (x, x + 1))
        return rectangle(south, west, north, east)

    def count_in_box(self, box: Box, level: int) -> int:
        """Return the number of cells that share a point with the box: rows times columns."""
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
MAX_PAIRS = 40_000  # trips from cell to cell, of which a map can be made


class Grid(Frozen):
    """A system of cells over a box, used at one or more levels, coarse to fine.

    kind: `quadkey`, `geohash`, `square` or `h3` (an extra: pip install 'rappor-telemetry[h3]').
    box: what is covered.  levels: increasing; the last is the one that a point is first put into.
    rows, columns: of `square` at its level 0; 0 for the others.

    Raises ParameterError with the bad value.
    """

    kind: GridKind
    box: Box
    levels: tuple[int, ...]
    rows: int = 0
    columns: int = 0

    def __post_init__(self) -> None:
        """Check the fields together, and the levels against the system of cells."""
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
        """How points become cells."""
        return _system(self)

    @property
    def library(self) -> str:
        """The library that reads its cells in an app; "" if none is needed."""
        return "h3" if self.kind == "h3" else ""

    @property
    def finest(self) -> int:
        """The level that a point is first put into."""
        return self.levels[-1]

    def locate(self, latitude: float, longitude: float) -> int | None:
        """Find the finest cell of a point.

        Args:
            latitude: Degrees. Private.
            longitude: Degrees, modulo 360. Private.

        Returns:
            The code of the cell, None outside the box. Private.

        Raises:
            ValueRefusedError: The numbers are not a point on the globe, or were exchanged. The
                message never holds them.
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
        except (TypeError, OverflowError):  # a Decimal, a number of hundreds of digits
            raise _not_a_point(latitude, longitude) from None

    def _wrapped(self, latitude: float, longitude: float) -> float:
        """Return the longitude in [-180, 180], on the side of the antimeridian where the box is."""
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
        """Write a finest cell as the value that is reported at a level.

        Args:
            cell: Its code, None for a point outside the box. Private.
            level: Level of the grid, at most the finest one.

        Returns:
            The name of the cell's parent at that level, `OTHER` for None. Private.
        """
        if cell is None:
            return OTHER
        return self.system.name(self.system.parent(cell, self.finest, level), level)

    def place(self, latitude: float, longitude: float, level: int) -> str:
        """Find the value of a point at a level.

        Args:
            latitude: Degrees. Private.
            longitude: Degrees, modulo 360. Private.
            level: Level of the grid, at most the finest one.

        Returns:
            The name of a cell, or `OTHER`. Private.

        Raises:
            ValueRefusedError: As `locate`.
        """
        return self.value(self.locate(latitude, longitude), level)

    def cells(self, level: int) -> tuple[str, ...]:
        """List every value of a level but `OTHER`, sorted by code: the public domain of a metric.

        Coarser levels hold the parents of the finest cells, so that a hierarchy is complete.
        Raises ParameterError above a million finest cells.
        """
        finest = self.finest if self.kind == "h3" else level
        finest_codes = self.codes(self.box, finest)
        codes = sorted({self.system.parent(cell, finest, level) for cell in finest_codes})
        return tuple(self.system.name(cell, level) for cell in codes)

    def codes(self, box: Box, level: int) -> Iterable[int]:
        """List the cells that share a point with a box.

        Args:
            box: Any box; it may exceed the grid's.
            level: Level of the grid.

        Returns:
            The codes of the cells.

        Raises:
            ParameterError: There are more than `MAX_CELLS`.
        """
        count = self.system.count_in_box(box, level)
        if count > MAX_CELLS:
            raise ParameterError(
                f"{box} holds about {count:,} cells of level {level}; "
                f"at most {MAX_CELLS:,} are listed: use a smaller box or a coarser level"
            )
        return self.system.in_box(box, level)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; `from_dict` is the inverse."""
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
        """Read `to_dict`'s form. Raises ParameterError."""
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
    try:  # an extra, so it is imported only where a metric asks for it
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
