"""Which part of each cell lies in a polygon: weights of named areas over the cells of a map."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from decoder.density.areas import Areas
from decoder.density.regions import polygons_of
from decoder.grid_cells import cell_outline
from decoder.typing import Flags, Floats, Indices
from rappor_core.errors import ParameterError, shown
from rappor_core.grid.grid import Grid

MOST_AREAS = 500
MOST_CORNERS = 100_000
_LONGEST_NAME = 60
_EMPTY = 1e-9  # of a cell
_TURNS = (-360.0, 0.0, 360.0)


@dataclass(frozen=True)
class _Cells:
    """Corners (longitude, latitude) of convex cells, with the rectangles around them (n, 4) and
    surfaces (n,)."""

    outlines: list[Floats]
    around: Floats
    surfaces: Floats

    @classmethod
    def of(cls, grid: Grid, cells: Sequence[str]) -> _Cells:
        outlines = [np.array(cell_outline(grid, cell))[:, ::-1] for cell in cells]
        around = np.array([[*one.min(axis=0), *one.max(axis=0)] for one in outlines])
        return cls(outlines, around, np.array([surface(one) for one in outlines]))


@dataclass(frozen=True)
class Outline:
    """A named area of a file. rings: corners (n, 2), longitude first and counter-clockwise, with
    1, or -1 for a hole.  geometry: as given."""

    name: str
    rings: list[tuple[Floats, int]]
    geometry: Mapping[str, Any]


def outlines_of(collection: Any, name_property: str = "name") -> list[Outline]:
    """Read named areas from a GeoJSON FeatureCollection, and check what needs no grid.

    Raises ParameterError: another geometry, a name that is missing or stands twice, a ring that
    crosses itself or the antimeridian, or too many of them.
    """
    found: dict[str, Outline] = {}
    corners = 0
    for number, feature in enumerate(_features(collection), start=1):
        name = _name(feature, number, name_property)
        if name in found:
            raise ParameterError(f"feature {number}: {shown(name)} stands twice; name areas apart")
        try:
            rings = _rings(feature)
            corners += sum(len(ring) for ring, _ in rings)
            if corners > MOST_CORNERS:
                raise ParameterError(f"more than {MOST_CORNERS:,} corners; simplify the outlines")
        except ParameterError as error:
            raise ParameterError(f"feature {number}, {shown(name)}: {error}") from error
        found[name] = Outline(name, rings, feature["geometry"])
    return list(found.values())


def areas_of(
    grid: Grid, cells: Sequence[str], collection: Any, name_property: str = "name"
) -> tuple[Areas, int]:
    """Read named areas over cells from a GeoJSON FeatureCollection.

    Args:
        grid: of the cells.
        cells: of one level.
        collection: features with a Polygon or MultiPolygon each; holes are left out of an area.
        name_property: the property that holds a feature's name.

    Returns:
        The areas that meet a cell, and how many do not.

    Raises:
        ParameterError: as `outlines_of`, a hole outside of its polygon, or no area that meets a
            cell.
    """
    outlines = outlines_of(collection, name_property)
    listed, weights, covered = _Cells.of(grid, cells), [], []
    for number, one in enumerate(outlines, start=1):
        try:
            inside, whole = _inside(one.rings, listed)
        except ParameterError as error:
            raise ParameterError(f"feature {number}, {shown(one.name)}: {error}") from error
        weights.append(sparse.csr_array(inside[None, :]))
        covered.append(min(float(inside @ listed.surfaces) / whole, 1.0))
    met = [i for i, row in enumerate(weights) if row.nnz]
    if not met:
        raise ParameterError(
            f"no area has a part in the box of the grid, {grid.box} (GeoJSON has longitude first)"
        )
    kept = [outlines[i].name for i in met]
    together = sparse.vstack([weights[i] for i in met]).tocsr()
    found = Areas(
        tuple(kept),
        together,
        np.array([covered[i] for i in met]),
        _overlapping(kept, together),
        tuple(outlines[i].geometry for i in met),
    )
    return found, len(outlines) - len(met)


def surface(ring: Floats) -> float:
    """Surface of a ring (corners, 2) of longitudes and latitudes in degrees, up to a constant;
    positive where it goes counter-clockwise. Exact for edges that are straight in longitude and
    sine of the latitude."""
    x, y = ring[:, 0], np.sin(np.radians(ring[:, 1]))
    x = x - x[0]
    return float(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2


def _features(collection: Any) -> Sequence[Any]:
    if not isinstance(collection, Mapping) or collection.get("type") != "FeatureCollection":
        raise ParameterError("it is no GeoJSON FeatureCollection")
    features = collection.get("features")
    if not isinstance(features, list) or not 1 <= len(features) <= MOST_AREAS:
        size = len(features) if isinstance(features, list) else "no"
        raise ParameterError(f"it has {size} features, and 1 to {MOST_AREAS} can be areas")
    return features


def _name(feature: Any, number: int, name_property: str) -> str:
    """Printable and short: it comes from a stranger's file and goes to a terminal."""
    if not isinstance(feature, Mapping) or feature.get("type") != "Feature":
        raise ParameterError(f"feature {number} is no GeoJSON Feature")
    properties = feature.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    text = known.get(name_property)
    text = "" if text is None or isinstance(text, list | dict) else str(text)
    name = "".join(c for c in text if c.isprintable()).strip()
    if not name or len(name) > _LONGEST_NAME:
        there = ", ".join(shown(str(one)) for one in list(known)[:5]) or "none"
        raise ParameterError(
            f"feature {number} has no {shown(name_property)} of 1 to {_LONGEST_NAME} characters; "
            f"its properties: {there}"
        )
    return name


def _rings(feature: Mapping[str, Any]) -> list[tuple[Floats, int]]:
    """Each ring (corners, 2), longitude first and counter-clockwise, with 1, or -1 for a hole."""
    geometry = feature.get("geometry")
    if not isinstance(geometry, Mapping) or geometry.get("type") not in ("Polygon", "MultiPolygon"):
        kind = geometry.get("type") if isinstance(geometry, Mapping) else None
        raise ParameterError(f"its geometry is {shown(str(kind))}, not a Polygon or MultiPolygon")
    found = []
    for rings in polygons_of(geometry):
        for position, points in enumerate(rings):
            ring = np.array(points)[:, ::-1]
            _check(ring)
            turned = ring if surface(ring) > 0 else ring[::-1]
            found.append((turned, -1 if position else 1))
    if not found:
        raise ParameterError("it holds no polygon")
    return found


def _check(ring: Floats) -> None:
    """Raise ParameterError for a ring that cannot bound a surface."""
    steps = np.abs(np.diff(np.vstack([ring, ring[:1]]), axis=0))[:, 0]
    if ((steps > 180) & (steps < 360)).any():
        raise ParameterError("a ring crosses the antimeridian; cut it there (RFC 7946, 3.1.9)")
    if not np.isfinite(ring).all() or abs(surface(ring)) < 1e-14:
        raise ParameterError("a ring has no surface")
    at = _crossing(ring)
    if at is not None:
        raise ParameterError(f"a ring crosses itself near longitude {at[0]:g}, latitude {at[1]:g}")


def _crossing(ring: Floats) -> Floats | None:
    """Where two edges of a ring cross within both of them, or None: a sweep from west to east."""
    starts, ends = ring, np.roll(ring, -1, axis=0)
    order = np.argsort(np.minimum(starts[:, 0], ends[:, 0]), kind="stable")
    starts, ends = starts[order], ends[order]
    west, east = np.minimum(starts[:, 0], ends[:, 0]), np.maximum(starts[:, 0], ends[:, 0])
    rows = np.arange(len(ring))
    for apart in range(1, len(ring)):
        rows = rows[rows + apart < len(ring)]
        rows = rows[west[rows + apart] < east[rows]]
        if not len(rows):
            return None
        others = rows + apart
        sides = [
            _side(starts[rows], ends[rows], starts[others]),
            _side(starts[rows], ends[rows], ends[others]),
            _side(starts[others], ends[others], starts[rows]),
            _side(starts[others], ends[others], ends[rows]),
        ]
        crossed = (sides[0] * sides[1] < 0) & (sides[2] * sides[3] < 0)
        if crossed.any():
            return np.asarray(starts[rows[int(np.argmax(crossed))]])
    return None


def _side(start: Floats, end: Floats, point: Floats) -> Floats:
    ahead, away = end - start, point - start
    return np.asarray(np.sign(ahead[:, 0] * away[:, 1] - ahead[:, 1] * away[:, 0]))


def _inside(rings: Sequence[tuple[Floats, int]], cells: _Cells) -> tuple[Floats, float]:
    """The part of each cell that the rings hold, (n,), and their surface."""
    found, whole = np.zeros(len(cells.surfaces)), 0.0
    for ring, sign in rings:
        whole += sign * surface(ring)
        for turn in _TURNS:
            moved = ring + np.array([turn, 0.0])
            for index, part in _parts(moved, cells, np.arange(len(found))):
                found[index] += sign * part
    if whole <= 0 or found.min() < -1e-6:
        raise ParameterError("a hole is not inside its polygon")
    found[found < _EMPTY] = 0.0
    return np.minimum(found, 1.0), whole


def _parts(ring: Floats, cells: _Cells, some: Indices) -> Iterator[tuple[int, float]]:
    """The part of some cells that a ring holds: it is cut with the rectangle around them, which is
    halved until a cell is left."""
    around = cells.around[some]
    west, south = around[:, :2].min(axis=0)
    east, north = around[:, 2:].max(axis=0)
    ring = _cut(ring, np.array([[west, south], [east, south], [east, north], [west, north]]))
    if len(ring) < 3:
        return
    if len(some) == 1:
        cell = int(some[0])
        part = _cut(ring, cells.outlines[cell])
        if len(part) > 2:
            yield cell, surface(part) / cells.surfaces[cell]
        return
    middles = around[:, :2] + around[:, 2:]
    axis = int(np.argmax(np.ptp(middles, axis=0)))
    order = np.argsort(middles[:, axis], kind="stable")
    for half in np.array_split(order, 2):
        yield from _parts(ring, cells, some[half])


def _cut(ring: Floats, convex: Floats) -> Floats:
    """The part of a ring within a convex, counter-clockwise one (Sutherland and Hodgman 1974)."""
    for start, end in zip(convex, np.roll(convex, -1, axis=0), strict=True):
        ahead = end - start
        away = ring - start
        side = ahead[0] * away[:, 1] - ahead[1] * away[:, 0]
        kept: Flags = side >= 0
        if kept.all():
            continue
        if not kept.any():
            return ring[:0]
        following, after = np.roll(ring, -1, axis=0), np.roll(side, -1)
        crossed = kept != np.roll(kept, -1)
        with np.errstate(divide="ignore", invalid="ignore"):
            at = np.where(crossed, side / (side - after), 0.0)[:, None]
        both = np.stack([ring, ring + at * (following - ring)], axis=1).reshape(-1, 2)
        ring = both[np.stack([kept, crossed], axis=1).ravel()]
    return ring


def _overlapping(names: Sequence[str], weights: Any) -> tuple[tuple[str, str], ...]:
    """Pairs of areas that hold more of a cell together than there is."""
    shared = (weights @ weights.T).tocoo()
    pairs = zip(shared.row.tolist(), shared.col.tolist(), strict=True)
    return tuple(
        (names[i], names[j])
        for i, j in sorted(pairs)
        if i < j and float((weights[[i]] + weights[[j]]).max()) > 1 + 1e-6
    )


def in_words(areas: Areas, outside: int) -> tuple[str, ...]:
    """What a reader of the areas' shares has to know."""
    texts = [
        "People are taken to be even within a cell: an area that holds a part of a cell gets that "
        "part of its share."
    ]
    if areas.overlapping:
        first, second = areas.overlapping[0]
        texts.append(
            f"Pairs of areas that overlap: {len(areas.overlapping)} (as {first} and {second}). "
            "People in both are counted in both, and shares do not add up."
        )
    partly = int(np.sum(areas.covered < 0.999))
    if partly:
        texts.append(
            f"Areas that lie partly outside of the map's box: {partly}. Their shares are of the "
            "part inside."
        )
    if outside:
        texts.append(f"Areas without a part in the map's box, left out: {outside}.")
    return tuple(texts)
