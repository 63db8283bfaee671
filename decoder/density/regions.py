"""The cells of a region: a box, a GeoJSON polygon, or a list. For analysts, not for devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from decoder.grid_cells import cell_outline, cells_touching
from rappor_core.errors import ParameterError, ValueRefusedError
from rappor_core.grid.box import RESERVED, Box, Point
from rappor_core.grid.grid import Grid

Ring = Sequence[Point]  # latitude, longitude


def region_cells(grid: Grid, level: int, region: Box | Mapping[str, Any]) -> tuple[str, ...]:
    """List the grid's cells of a level that touch a region, sorted by code.

    region: a `Box`, or a GeoJSON object (Polygon, MultiPolygon, Feature or FeatureCollection).
    A cell touches a polygon if one holds a corner of the other, or their edges cross.
    Raises ParameterError for another geometry, or where no cell is left.
    """
    domain = grid.cells(level)
    if isinstance(region, Box):
        touched, what = set(cells_touching(grid, region, level)), f"the region {region}"
        found = tuple(cell for cell in domain if cell in touched)
    else:
        polygons = list(polygons_of(region))
        if not polygons:
            raise ParameterError("it holds no polygon")
        what = f"the region {_extent(polygons)}"
        found = tuple(
            cell for cell in domain if any(_touches(grid, cell, rings) for rings in polygons)
        )
    if not found:
        raise ParameterError(
            f"{what} and the box of the grid, {grid.box}, have no cell in common (GeoJSON has the "
            "longitude first)"
        )
    return found


def _extent(polygons: Iterable[list[Ring]]) -> str:
    """Of outer rings, for a message: from the least to the largest latitude and longitude."""
    latitudes, longitudes = zip(*(point for rings in polygons for point in rings[0]), strict=True)
    return (
        f"(latitude {min(latitudes):g} to {max(latitudes):g}, "
        f"longitude {min(longitudes):g} to {max(longitudes):g})"
    )


def listed_cells(grid: Grid, level: int, lines: Iterable[str]) -> tuple[str, ...]:
    """Check a list with a cell a line: each must be a cell of that level in the grid's box.

    Blank lines and reserved values are passed over; a cell counts once. Raises ParameterError that
    names the first bad line, or where there is no cell.
    """
    domain, seen = set(grid.cells(level)), dict[str, None]()
    for number, line in enumerate(lines, start=1):
        name = line.strip()
        if name in domain:
            seen[name] = None
        elif name and name not in RESERVED:
            raise ParameterError(f"line {number}: {_why_not(grid, level, name)}")
    if not seen:
        raise ParameterError(f"no cells; give some of level {level}, as {min(domain)!r}")
    return tuple(seen)


def _why_not(grid: Grid, level: int, name: str) -> str:
    """What is wrong with a cell that is not among those of a level."""
    try:
        own = grid.system.parse(name)[1]
    except ValueRefusedError as error:
        return str(error)
    if own != level:
        return f"{name!r} is a cell of level {own}, not {level}"
    return f"{name!r} is outside the box of the metric"


def polygons_of(geometry: Mapping[str, Any]) -> Iterable[list[Ring]]:
    """Rings of each polygon of a GeoJSON object: the outer one first, then its holes."""
    kind = geometry.get("type")
    if kind == "FeatureCollection":
        for feature in geometry.get("features", ()):
            yield from polygons_of(feature)
    elif kind == "Feature":
        yield from polygons_of(geometry.get("geometry") or {})
    elif kind in ("Polygon", "MultiPolygon"):
        parts = geometry["coordinates"] if kind == "MultiPolygon" else [geometry["coordinates"]]
        for part in parts:
            if not part:
                raise ParameterError("a polygon has no ring")
            yield [_ring(ring) for ring in part]
    else:
        raise ParameterError(f"GeoJSON type {kind!r} is not a Polygon, MultiPolygon or Feature")


def _ring(coordinates: Any) -> Ring:
    """Latitude and longitude pairs from GeoJSON's longitude, latitude."""
    try:
        points = [(float(point[1]), float(point[0])) for point in coordinates]
    except (TypeError, ValueError, IndexError) as error:
        raise ParameterError(f"a ring of the polygon is not a list of points: {error}") from error
    if not all(-90 <= lat <= 90 and -540 <= lon <= 540 for lat, lon in points):
        raise ParameterError("a ring of the polygon is not in degrees, longitude first")
    if len(points) < 4 or points[0] != points[-1]:
        raise ParameterError(f"a ring of {len(points)} points is not closed; repeat the first one")
    return points[:-1]


def _touches(grid: Grid, cell: str, rings: list[Ring]) -> bool:
    """Whether one holds a corner of the other, or their edges cross."""
    outline = _beside(cell_outline(grid, cell), rings[0])
    if not _near(outline, rings[0]):
        return False
    if any(_inside(point, rings) for point in outline):
        return True
    if any(_inside(point, [outline]) for ring in rings for point in ring):
        return True
    return any(
        _cross(edge, own) for ring in rings for edge in _edges(ring) for own in _edges(outline)
    )


def _beside(outline: Ring, ring: Ring) -> list[Point]:
    """The outline on the turn of the globe that a ring is on."""
    middles = [sum(longitude for _, longitude in one) / len(one) for one in (ring, outline)]
    turn = 360 * round((middles[0] - middles[1]) / 360)
    return [(latitude, longitude + turn) for latitude, longitude in outline]


def _near(one: Ring, other: Ring) -> bool:
    """Whether the boxes around them have a point in common."""
    axes = zip(zip(*one, strict=True), zip(*other, strict=True), strict=True)
    return all(min(a) <= max(b) and min(b) <= max(a) for a, b in axes)


def _edges(ring: Ring) -> Iterable[tuple[Point, Point]]:
    return zip(ring, [*ring[1:], ring[0]], strict=True)


def _cross(one: tuple[Point, Point], other: tuple[Point, Point]) -> bool:
    """Whether two edges cross, within both of them."""
    return _apart(*one, other) and _apart(*other, one)


def _apart(start: Point, end: Point, points: tuple[Point, Point]) -> bool:
    """Whether two points lie on different sides of a line."""
    up, ahead = end[0] - start[0], end[1] - start[1]
    sides = [ahead * (lat - start[0]) - up * (lon - start[1]) for lat, lon in points]
    return sides[0] * sides[1] < 0


def _inside(point: Point, rings: Sequence[Ring]) -> bool:
    """Whether a ray to the east crosses the rings an odd number of times (holes included)."""
    latitude, longitude = point
    crossings = 0
    for ring in rings:
        for (lat_a, lon_a), (lat_b, lon_b) in _edges(ring):
            if (lat_a > latitude) != (lat_b > latitude):
                at = lon_a + (latitude - lat_a) / (lat_b - lat_a) * (lon_b - lon_a)
                crossings += longitude < at
    return crossings % 2 == 1
