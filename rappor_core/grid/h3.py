"""H3 cells as a grid, through the optional `h3` library, which no other module may import.

H3 cells do not nest exactly. Near the edge of a coarse cell, the parent of a point's fine cell can
differ from the coarse cell of the point. So this code computes one fine cell and derives every
coarser cell from it.
"""

from collections.abc import Iterator

import h3.api.basic_int as h3
from h3 import int_to_str, str_to_int

from rappor_core.errors import ValueRefusedError
from rappor_core.grid.box import Box, Point


class H3:
    """H3 cells at levels (resolutions) 0 to 15; names are the library's hexadecimal digits."""

    levels = range(16)

    def cell(self, latitude: float, longitude: float, level: int) -> int:
        """Return the H3 cell that contains a point."""
        return int(h3.latlng_to_cell(latitude, longitude, level))

    def parent(self, cell: int, level: int, coarser: int) -> int:
        """Return the parent cell at a coarser level, as defined by the library."""
        return int(h3.cell_to_parent(cell, coarser)) if coarser < level else cell

    def name(self, cell: int, level: int) -> str:
        """Return the hexadecimal digits of a cell, which contain its level."""
        del level
        return str(int_to_str(cell))

    def parse(self, name: str) -> tuple[int, int]:
        """Parse hexadecimal digits; only the spelling that `name` returns is valid."""
        try:
            cell = int(str_to_int(name))
        except (ValueError, OverflowError):
            cell = 0
        if not h3.is_valid_cell(cell) or int_to_str(cell) != name:
            raise ValueRefusedError(f"{name[:40]!r} is not an H3 cell")
        return cell, int(h3.get_resolution(cell))

    def outline(self, cell: int, level: int) -> tuple[Point, ...]:
        """Return the corners of a hexagon; longitudes exceed 180 if it crosses the antimeridian."""
        del level
        corners = [(float(lat), float(lon)) for lat, lon in h3.cell_to_boundary(cell)]
        if max(lon for _, lon in corners) - min(lon for _, lon in corners) > 180:
            corners = [(lat, lon + 360 if lon < 0 else lon) for lat, lon in corners]
        return tuple(corners)

    def count_in_box(self, box: Box, level: int) -> int:
        """Return an upper bound on the number of cells, estimated from the mean area of a cell."""
        cell_area = h3.average_hexagon_area(level, unit="km^2")
        area = (box.north - box.south) * 111.2 * box.width * 111.2
        return int(3 * area / cell_area) + 100

    def in_box(self, box: Box, level: int) -> Iterator[int]:
        """Yield the cells that share a point with the box; very wide boxes are split in two."""
        shape = [(box.south, box.west), (box.south, box.east), (box.north, box.east),
                 (box.north, box.west)]  # fmt: skip
        if box.width >= 180:
            middle = (box.west + box.width / 2 + 180) % 360 - 180
            halves = (Box(box.south, box.west, box.north, middle),
                      Box(box.south, middle, box.north, box.east))  # fmt: skip
            return iter(sorted({cell for half in halves for cell in self.in_box(half, level)}))
        cells = h3.h3shape_to_cells_experimental(h3.LatLngPoly(shape), level, contain="overlap")
        return iter(sorted(int(cell) for cell in cells))
