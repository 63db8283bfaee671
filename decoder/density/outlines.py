"""Named areas over a map's cells: the fraction of each cell inside an area, by shapely."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import shapely
from scipy import sparse
from shapely.affinity import translate
from shapely.geometry import mapping

from decoder.density.areas import Areas
from decoder.grid_cells import cell_outline
from decoder.tables.geo_files import Shape
from decoder.typing import Floats
from rappor_core.errors import ParameterError, shown
from rappor_core.grid.grid import Grid

MAX_AREAS = 500
MAX_CORNERS = 100_000
_MAX_NAME = 60
_SHOWN_PROPERTIES = 5
_NEGLIGIBLE = 1e-9  # smaller parts of a cell count as 0
_AMBIGUOUS = 1e-3  # the part of a ring's surface that may be inside or outside by interpretation
_TURNS = (-360.0, 0.0, 360.0)  # degrees by which an area is shifted to meet the cells


@dataclass(frozen=True)
class Outline:
    """A named area."""

    name: str
    geometry: Any  # A valid Polygon or MultiPolygon
    repaired: bool = False  # Whether the geometry in the file was invalid and was repaired


def outlines_of(shapes: Sequence[Shape], name_property: str = "name") -> list[Outline]:
    """Check the areas of a file.

    Args:
        shapes: The features, each a Polygon or MultiPolygon.
        name_property: The property that contains a feature's name.

    Raises:
        ParameterError: A geometry is not an area, a name is missing or repeated, an outline crosses
            itself or the antimeridian, a hole is outside its polygon, or areas are too many.
    """
    if not 1 <= len(shapes) <= MAX_AREAS:
        raise ParameterError(f"it has {len(shapes)} features, and 1 to {MAX_AREAS} can be areas")
    corners = sum(shapely.get_num_coordinates(shape.geometry) for shape in shapes)
    if corners > MAX_CORNERS:
        raise ParameterError(f"{corners:,} corners, and {MAX_CORNERS:,} can be used; simplify them")
    outlines: dict[str, Outline] = {}
    for shape in shapes:
        name = shape.text(name_property)
        if not name or len(name) > _MAX_NAME:
            properties = ", ".join(map(shown, list(shape.properties)[:_SHOWN_PROPERTIES])) or "none"
            raise ParameterError(
                f"feature {shape.number} has no {shown(name_property)} of 1 to {_MAX_NAME} "
                f"characters; its properties: {properties}"
            )
        if name in outlines:
            raise ParameterError(
                f"feature {shape.number}: the name {shown(name)} is repeated; use separate names"
            )
        try:
            geometry = valid_area(shape.geometry)
        except ParameterError as error:
            raise ParameterError(f"feature {shape.number}, {shown(name)}: {error}") from error
        outlines[name] = Outline(name, geometry, geometry is not shape.geometry)
    return list(outlines.values())


def valid_area(geometry: Any) -> Any:
    """Return a valid Polygon or MultiPolygon unchanged, or the union of an invalid one's parts.

    Raises ParameterError if it is not an area, or if it is ambiguous which points are inside."""
    if shapely.get_type_id(geometry) not in (3, 6):
        kind = "None" if geometry is None else geometry.geom_type
        raise ParameterError(f"its geometry is {shown(kind)}, not a Polygon or MultiPolygon")
    if shapely.is_empty(geometry):
        raise ParameterError("it contains no polygon")
    for part in shapely.get_parts(geometry):
        for ring in shapely.get_rings(part):
            steps = np.abs(np.diff(shapely.get_coordinates(ring)[:, 0]))
            if ((steps > 180) & (steps < 360)).any():
                raise ParameterError("a ring crosses the antimeridian; split it there (RFC 7946)")
    if shapely.is_valid(geometry):
        return geometry
    polygons = []
    for part in shapely.get_parts(geometry):
        shell, *holes = (_valid_ring(ring) for ring in shapely.get_rings(part))
        inside = shapely.union_all(holes)
        beyond = shapely.difference(inside, shell)
        if shapely.area(beyond) > _AMBIGUOUS * shapely.area(inside):
            place = _place(shapely.point_on_surface(beyond))
            raise ParameterError(f"a hole is not inside its polygon near {place}")
        polygons.append(shapely.difference(shell, inside))
    united = shapely.union_all(polygons)
    if shapely.is_empty(united):
        point = shapely.points(shapely.get_coordinates(geometry)[0])
        raise ParameterError(f"it has no surface near {_place(point)}")
    return united


def _valid_ring(ring: Any) -> Any:
    """Return the polygon inside a ring; reject a ring that crosses itself.

    A figure eight is detected because its signed area is not a multiple of its interior."""
    polygon = shapely.polygons(ring)
    if shapely.is_valid(polygon):
        return polygon
    inside = shapely.make_valid(polygon, method="structure", keep_collapsed=False)
    surface = shapely.area(inside)
    if not surface:
        return shapely.Polygon()
    times = shapely.area(polygon) / surface
    if round(times) < 1 or abs(times - round(times)) > _AMBIGUOUS:
        _, _, place = shapely.is_valid_reason(polygon).partition("[")
        x, y = (float(number) for number in place.rstrip("]").split()[:2])
        raise ParameterError(f"a ring crosses itself near longitude {x:g}, latitude {y:g}")
    return inside


def _place(point: Any) -> str:
    return f"longitude {point.x:g}, latitude {point.y:g}"


def areas_of(
    grid: Grid, cells: Sequence[str], outlines: Sequence[Outline]
) -> tuple[Areas, tuple[str, ...]]:
    """Compute the fraction of each cell's surface inside each area, for one level.

    Returns:
        The areas that overlap a cell, and notes that readers of the areas' shares need.

    Raises:
        ParameterError: No area overlaps a cell.
    """
    polygons = _cell_polygons(grid, cells)
    tree, surfaces = shapely.STRtree(polygons), surface(polygons)
    weights: Any = sparse.vstack(
        [
            sparse.csr_array(_parts(outline.geometry, polygons, tree, surfaces)[None])
            for outline in outlines
        ]
    ).tocsr()
    met = np.flatnonzero(np.diff(weights.indptr)).tolist()
    if not met:
        raise ParameterError(
            f"no area has a part in the box of the grid, {grid.box} (GeoJSON has longitude first)"
        )
    used = [outlines[i] for i in met]
    names, weights = tuple(area.name for area in used), weights[met]
    sizes = surface(np.array([area.geometry for area in used]))
    covered = np.minimum(weights @ surfaces / sizes, 1)
    shared = (weights @ weights.T).tocoo()
    overlapping = tuple(
        (names[i], names[j])
        for i, j in sorted(zip(shared.row.tolist(), shared.col.tolist(), strict=True))
        if i < j and float((weights[[i]] + weights[[j]]).max()) > 1 + 1e-6  # of a cell
    )
    geometries = tuple(mapping(area.geometry) for area in used)
    areas = Areas(names, weights, covered, overlapping, geometries)
    repaired = [area.name for area in used if area.repaired]
    return areas, _notes(areas, len(outlines) - len(met), repaired)


def _cell_polygons(grid: Grid, cells: Sequence[str]) -> Any:
    return np.array(
        [shapely.polygons(np.array(cell_outline(grid, cell))[:, ::-1]) for cell in cells]
    )


def surface(polygons: Any) -> Floats:
    """Compute the surfaces (n,) of polygons given in degrees, up to a constant.

    The surfaces are exact on the sphere for edges straight in longitude and sine of the latitude.
    """
    flat = shapely.transform(polygons, lambda x, y: (x, np.sin(np.radians(y))), interleaved=False)
    return np.asarray(shapely.area(flat))


def _parts(geometry: Any, polygons: Any, tree: Any, surfaces: Floats) -> Floats:
    """Return each cell's fraction inside an area, (n,); longitudes may differ by 360 degrees."""
    inside = np.zeros(len(polygons))
    for turn in _TURNS:
        moved = translate(geometry, xoff=turn)
        shapely.prepare(moved)
        near = tree.query(moved, predicate="intersects")
        whole = shapely.contains(moved, polygons[near])
        inside[near[whole]] = 1.0
        near = near[~whole]
        inside[near] += surface(shapely.intersection(polygons[near], moved)) / surfaces[near]
    inside[inside < _NEGLIGIBLE] = 0.0
    return np.minimum(inside, 1.0)


def _notes(areas: Areas, outside: int, repaired: Sequence[str]) -> tuple[str, ...]:
    first, second = areas.overlapping[0] if areas.overlapping else ("", "")
    partly = int(np.sum(areas.covered < 0.999))
    texts = {
        "People are taken to be even within a cell: an area that holds a part of a cell gets that "
        "part of its share.": True,
        f"Pairs of areas that overlap: {len(areas.overlapping)} (as {first} and {second}). "
        "People in both are counted in both, and shares do not add up.": areas.overlapping,
        f"Outlines that were not valid, whose parts were united: {len(repaired)} (as "
        f"{', '.join(repaired[:1])}).": repaired,
        f"Areas that lie partly outside of the map's box: {partly}. Their shares are of the "
        "part inside.": partly,
        f"Areas without a part in the map's box, left out: {outside}.": outside,
    }
    return tuple(text for text, applies in texts.items() if applies)


def region_cells(grid: Grid, level: int, region: Any) -> tuple[str, ...]:
    """List the grid's cells of a level that touch a region, sorted by code.

    Args:
        grid: The grid, whose box limits the cells.
        level: The level of the cells.
        region: Valid polygons, longitude first.

    Raises:
        ParameterError: No cell touches the region.
    """
    domain = grid.cells(level)
    polygons = _cell_polygons(grid, domain)
    parts = _parts(region, polygons, shapely.STRtree(polygons), surface(polygons))
    if not parts.any():
        west, south, east, north = shapely.bounds(region)
        raise ParameterError(
            f"the region (latitude {south:g} to {north:g}, longitude {west:g} to {east:g}) and the "
            f"box of the grid, {grid.box}, have no cell in common (GeoJSON has the longitude first)"
        )
    return tuple(domain[i] for i in np.flatnonzero(parts))
