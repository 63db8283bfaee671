"""The ground of a map: coast, borders, water and cities around it from files of this package, the
file of the user with streets, districts or stations, and places and shares as map.js draws them.

Outlines of Natural Earth (public domain) at 1:50 million, a kilometer or two exact; see
data/basemap.json.gz and docs/tools/make_basemap.py. Nothing comes from a network.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from decoder.density.areas import Areas
from decoder.errors import DecodeError
from decoder.files import naming
from decoder.tables.format import short
from decoder.tables.geo_files import read_shapes
from decoder.typing import Floats
from rappor_core.grid.box import Point

Line = list[list[float]]

_PLACES = 3  # decimals of a degree: the outlines are not better
_FILLED = ("land", "lakes")
_LINES = ("coast", "borders", "rivers")
MAX_CORNERS = 300_000  # about 5 MB of page
MAX_NAME = 60
FAR = 60.0  # km: a city that far away says nothing of a cell
_POINTS = ("N", "NE", "E", "SE", "S", "SW", "W", "NW")
_FINE_POINTS = ("N", "NNE", "NE", "ENE", "E", "ESE", "SE", "SSE",
                "S", "SSW", "SW", "WSW", "W", "WNW", "NW", "NNW")  # fmt: skip
PLACES = 5  # decimals of a degree: a meter
UNIT = 1e-7  # shares are whole numbers of it: a third of the text, written and read in a tenth
_AROUND = 5.0  # how far the page's land and water go: a map's box fills a fifth of them or more


@dataclass(frozen=True)
class View:
    """The visible rectangle of a map, in degrees; longitudes may pass 180."""

    west: float
    south: float
    east: float
    north: float


def bundled_source() -> str:
    """Attribution of the packaged coast lines and cities."""
    return f"{_bundled()['source']} ({_bundled()['licence']})"


def surroundings(view: View) -> dict[str, Any]:
    """The packaged geography within a view, as lists of [longitude, latitude]: rings clipped to it,
    and the parts of lines whose segments may cross it."""
    found: dict[str, Any] = {name: [] for name in (*_FILLED, *_LINES, "cities")}
    least, most = [view.west, view.south], [view.east, view.north]
    edges = (0, 1, view.west), (0, -1, view.east), (1, 1, view.south), (1, -1, view.north)
    for turn, name in product((-360.0, 0.0, 360.0), (*_FILLED, "borders", "rivers")):
        for known in _bundled()[name]:
            line = np.add(known, (turn, 0.0))
            if (line.min(axis=0) > most).any() or (line.max(axis=0) < least).any():
                continue
            if name in _FILLED:
                part: list[Sequence[float]] = line.tolist()
                for axis, sign, edge in edges:
                    part = one_side(part, axis, sign, edge)
                if len(part) > 2:
                    found[name].append([[round(x, _PLACES), round(y, _PLACES)] for x, y in part])
            if name != "lakes":
                low, high = np.minimum(line[1:], line[:-1]), np.maximum(line[1:], line[:-1])
                inside = ((low <= most) & (high >= least)).all(axis=1)
                ends = np.flatnonzero(np.diff(np.concatenate([[False], inside, [False]])))
                found["coast" if name == "land" else name] += [
                    np.round(line[first : last + 1], _PLACES).tolist()
                    for first, last in ends.reshape(-1, 2)
                ]
    for turn, (name, x, y) in product((-360.0, 0.0, 360.0), _bundled()["cities"]):
        if view.west <= x + turn <= view.east and view.south <= y <= view.north:
            found["cities"].append([name, round(x + turn, _PLACES), y])
    return found


@lru_cache(maxsize=1)
def _bundled() -> dict[str, Any]:
    packed = files("decoder.output").joinpath("data/basemap.json.gz").read_bytes()
    known: dict[str, Any] = json.loads(gzip.decompress(packed))
    for name in (*_FILLED, "borders", "rivers"):
        known[name] = [
            np.cumsum(np.reshape(line, (-1, 2)), axis=0) * known["unit"] for line in known[name]
        ]
    return known


def one_side(
    ring: Sequence[Sequence[float]], axis: int, sign: int, edge: float
) -> list[Sequence[float]]:
    """Keep the part of a ring (x, y) on one side of an edge: of x (axis 0) or y (1), above it (sign
    1) or below (-1). Sutherland and Hodgman 1974, "Reentrant polygon clipping"."""
    kept: list[Sequence[float]] = []
    for a, b in zip(ring, [*ring[1:], *ring[:1]], strict=True):
        inside_a, inside_b = sign * (a[axis] - edge) >= 0, sign * (b[axis] - edge) >= 0
        if inside_a:
            kept.append(a)
        if inside_a != inside_b:
            at = (edge - a[axis]) / (b[axis] - a[axis])
            kept.append([a[i] + at * (b[i] - a[i]) for i in (0, 1)])
    return kept


def distance_km(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Distance in km between two points (latitude, longitude), on a sphere."""
    (lat_a, lon_a), (lat_b, lon_b) = (tuple(map(math.radians, point)) for point in (a, b))
    half = math.sin((lat_b - lat_a) / 2) ** 2
    half += math.cos(lat_a) * math.cos(lat_b) * math.sin((lon_b - lon_a) / 2) ** 2
    return 2 * 6371.0 * math.asin(min(1.0, math.sqrt(half)))


@dataclass(frozen=True)
class BaseLayer:
    """The lines, areas and points of a file, each [longitude, latitude], with names."""

    lines: list[Line] = field(default_factory=list)
    areas: list[tuple[str, list[Line]]] = field(default_factory=list)
    points: list[tuple[str, list[float]]] = field(default_factory=list)


def read_base(path: Path) -> BaseLayer:
    """Read a vector file of any shapes. Raises DecodeError, naming the file, if it is not one."""
    layer = BaseLayer()
    with naming(path, DecodeError, "give a vector file, such as GeoJSON"):
        for shape in read_shapes(path)[0]:
            if shape.geometry is not None:
                _add(layer, short(shape.name(["name", "NAME"]), MAX_NAME), shape.geometry)
        corners = sum(map(len, layer.lines)) + len(layer.points)
        corners += sum(len(ring) for _, rings in layer.areas for ring in rings)
        if not 0 < corners <= MAX_CORNERS:
            raise DecodeError(f"{corners:,} corners, and 1 to {MAX_CORNERS:,} can be drawn")
    return layer


def place_name(point: Point, base: BaseLayer, cell_km: float, *, finely: bool = False) -> str:
    """The name of the area, point or city nearest to a cell's center (latitude, longitude); ""
    if none is near.

    finely: whether distance and direction from a city are told to 100 meters and a sixteenth of
    the compass.

    The user's own names come first: the area around the point, then the nearest point within a
    cell's width, then the nearest city of the package.
    """
    for name, rings in base.areas:
        if name and sum(_inside(ring, point) for ring in rings) % 2:
            return name
    own = [(distance_km(point, (y, x)), name) for name, (x, y) in base.points if name]
    if own and min(own)[0] <= cell_km:
        return min(own)[1]
    cities: list[tuple[str, float, float]] = _bundled()["cities"]
    away, name, x, y = min((distance_km(point, (y, x)), name, x, y) for name, x, y in cities)
    if away > FAR:
        return ""
    if away <= max(cell_km, 2.0):
        return name
    east = ((point[1] - x + 540) % 360 - 180) * math.cos(math.radians(y))
    turn = math.degrees(math.atan2(east, point[0] - y))
    if finely:
        return f"{away:.1f} km {_FINE_POINTS[round(turn / 22.5) % 16]} of {name}"
    return f"{away:.0f} km {_POINTS[round(turn / 45) % 8]} of {name}"


def _add(layer: BaseLayer, name: str, geometry: Any) -> None:
    """Add a shapely geometry, part by part."""
    if hasattr(geometry, "geoms"):
        for part in geometry.geoms:
            _add(layer, name, part)
        return
    kind = geometry.geom_type
    rings = (geometry.exterior, *geometry.interiors) if kind == "Polygon" else (geometry,)
    lines = [[list(corner) for corner in ring.coords] for ring in rings]
    if kind == "Polygon":
        layer.areas.append((name, lines))
    elif kind == "Point":
        layer.points.append((name, lines[0][0]))
    else:
        layer.lines.append(lines[0])


def _inside(ring: Line, point: Point) -> bool:
    latitude, longitude = point
    odd = False
    for (xa, ya), (xb, yb) in zip(ring, [*ring[1:], *ring[:1]], strict=True):
        crosses = (ya > latitude) != (yb > latitude)
        if crosses and longitude < (xb - xa) * (latitude - ya) / (yb - ya) + xa:
            odd = not odd
    return odd


def map_ground(
    outlines: Sequence[Sequence[Point]], base: BaseLayer, moved: Callable[[float], float]
) -> dict[str, Any]:
    """The cells of a map and what lies around them.

    Args:
        outlines: latitude and longitude of the corners of each cell.
        base: streets, districts and stations of the user's.
        moved: gives a longitude as the map's, which go on beyond 180.
    """
    cells = [
        [[round(lon, PLACES), round(lat, PLACES)] for lat, lon in outline] for outline in outlines
    ]
    corners = np.array([corner for outline in cells for corner in outline]).reshape(-1, 2)
    low, high = corners.min(axis=0), corners.max(axis=0)
    middle, half = (low + high) / 2, _AROUND * (high - low) / 2
    (west, south), (east, north) = (middle - half).tolist(), (middle + half).tolist()
    return {
        "cells": cells,
        "around": surroundings(View(west, max(-89.0, south), east, min(89.0, north))),
        "base": {
            "lines": [_shifted(line, moved) for line in base.lines],
            "areas": [(name, [_shifted(ring, moved) for ring in rings])
                      for name, rings in base.areas],
            "points": [(name, _shifted([point], moved)[0]) for name, point in base.points],
        },
    }  # fmt: skip


def _shifted(line: Sequence[Sequence[float]], moved: Callable[[float], float]) -> Line:
    return [[round(moved(x), PLACES), round(y, PLACES)] for x, y, *_ in line]


def area_outlines(areas: Areas, moved: Callable[[float], float]) -> list[list[Line]]:
    """The rings of each area, [longitude, latitude]; longitudes go on beyond 180 as the map's."""
    outlines = []
    for geometry in areas.geometries:
        is_one = geometry["type"] == "Polygon"
        parts = [geometry["coordinates"]] if is_one else geometry["coordinates"]
        outlines.append([_shifted(ring, moved) for part in parts for ring in part])
    return outlines


def map_json(data: Mapping[str, Any]) -> str:
    """The data as JSON that is safe within a page."""
    drawn = {name: value for name, value in data.items() if name != "texts"}
    text = json.dumps(drawn, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.replace("<", "\\u003c")


def counted(shares: Floats) -> list[int]:
    """Shares as whole multiples of `UNIT`, as the page's script reads them."""
    counts: list[int] = np.rint(shares / UNIT).astype(np.int64).tolist()
    return counts
