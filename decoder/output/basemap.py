"""The background of a map: coasts, borders, water, cities, and the user's own file.

Outlines are from Natural Earth (public domain) at 1:10 million, accurate to a few hundred meters;
places are from GeoNames (CC BY 4.0). docs/tools/make_basemap.py makes the packaged file; nothing is
loaded from a network. Places and shares are formatted as map.js draws them."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from decoder.density.areas import Areas
from decoder.errors import DecodeError
from decoder.files import naming
from decoder.tables.format import short
from decoder.tables.geo_files import read_shapes
from decoder.typing import Floats, Indices
from rappor_core.grid.box import Point

Line = list[list[float]]

_PLACES = 3  # decimals of a degree, the accuracy of the outlines
_EARTH_KM = 6371.0
_PIXELS, _MAX_CITIES = 1_500, 300  # per view
_FILLED = ("land", "lakes")
_LINES = ("coast", "borders", "rivers")
MAX_CORNERS = 300_000  # about 5 MB in a page
MAX_NAME = 60
FAR = 60.0  # km; a more distant city does not help to locate a cell
_COMPASS = ("N", "NNE", "NE", "ENE", "E", "ESE", "SE", "SSE",
            "S", "SSW", "SW", "WSW", "W", "WNW", "NW", "NNW")  # fmt: skip
PLACES = 5  # decimals of a degree, or a meter
UNIT = 1e-7  # shares are whole multiples, for a third of the text and a tenth of the time
_AROUND = 5.0  # width of the drawn land and water, relative to the map's cells


@dataclass(frozen=True)
class View:
    """The visible rectangle of a map in degrees; longitudes may exceed 180."""

    west: float
    south: float
    east: float
    north: float


def bundled_source() -> str:
    """Return the attribution of the packaged coast lines and places."""
    return str(_bundled()["source"])


def surroundings(view: View) -> dict[str, Any]:
    """Return the packaged shapes in a view, [longitude, latitude], simplified to 1,500 pixels."""
    shapes: dict[str, Any] = {name: [] for name in (*_FILLED, *_LINES, "cities")}
    least, most = np.array([view.west, view.south]), np.array([view.east, view.north])
    edges = (0, 1, view.west), (0, -1, view.east), (1, 1, view.south), (1, -1, view.north)
    for turn, name in product((-360.0, 0.0, 360.0), (*_FILLED, "borders", "rivers")):
        by = np.array([turn, 0.0])
        for line in _bundled()[name].near(least - by, most - by):
            line = line + by
            if name in _FILLED:
                part = line
                for axis, sign, edge in edges:
                    part = one_side(part, axis, sign, edge)
                if len(part) > 2:
                    shapes[name].append(part.round(_PLACES).tolist())
            if name != "lakes":
                low, high = np.minimum(line[1:], line[:-1]), np.maximum(line[1:], line[:-1])
                inside = ((low <= most) & (high >= least)).all(axis=1)
                ends = np.flatnonzero(np.diff(np.concatenate([[False], inside, [False]])))
                shapes["coast" if name == "land" else name] += [
                    np.round(line[first : last + 1], _PLACES).tolist()
                    for first, last in ends.reshape(-1, 2)
                ]
    names = _bundled()["names"]
    for rows, moved in _places_in(view):
        for index in rows[:_MAX_CITIES].tolist():
            shapes["cities"].append([names[index], *moved[index].round(_PLACES).tolist()])
    return shapes


def num_towns(view: View) -> int:
    """Count the packaged places within a view."""
    return sum(len(rows) for rows, _ in _places_in(view))


def _places_in(view: View) -> Iterator[tuple[Indices, Floats]]:
    least, most = np.array([view.west, view.south]), np.array([view.east, view.north])
    for turn in (-360.0, 0.0, 360.0):
        moved = _bundled()["places"] + np.array([turn, 0.0])
        yield np.flatnonzero(((least <= moved) & (moved <= most)).all(axis=1)), moved


@dataclass(frozen=True)
class _Lines:
    """Lines of (longitude, latitude), (corners, 2) each."""

    lines: list[Floats]
    low: Floats  # Lower corners of their boxes
    high: Floats

    def near(self, least: Floats, most: Floats) -> Iterator[Floats]:
        step = (most[0] - least[0]) / _PIXELS
        meets = ((self.low <= most) & (self.high >= least)).all(axis=1)
        meets &= (self.high - self.low > 2 * step).any(axis=1)
        for index in np.flatnonzero(meets).tolist():
            line = self.lines[index]
            moves = (np.diff(np.rint(line / step), axis=0) != 0).any(axis=1)
            yield line[np.append(True, moves)]


@lru_cache(maxsize=1)
def _bundled() -> dict[str, Any]:
    shapes: dict[str, Any] = {}
    with files("decoder.output").joinpath("data/basemap.npz").open("rb") as file:
        packed = np.load(file)
        for name in (*_FILLED, "borders", "rivers", "places"):
            corners = np.cumsum(packed[name], axis=0) * float(packed["unit"])
            starts = np.cumsum(packed[f"{name}_counts"])[:-1]
            edges = np.append(0, starts)
            shapes[name] = _Lines(
                np.split(corners, starts),
                np.minimum.reduceat(corners, edges),
                np.maximum.reduceat(corners, edges),
            )
        shapes |= {"source": str(packed["source"]), "names": str(packed["names"]).split("\n")}
    (shapes["places"],) = shapes["places"].lines
    shapes["tree"] = cKDTree(_directions(shapes["places"]))
    return shapes


def _directions(places: Floats) -> Floats:
    x, y = np.radians(places).T
    return np.column_stack([np.cos(y) * np.cos(x), np.cos(y) * np.sin(x), np.sin(y)])


def one_side(ring: Floats, axis: int, sign: int, edge: float) -> Floats:
    """Clip a ring (corners, 2) to one side of an edge at a value of x (axis 0) or y (axis 1).

    The kept side is above the edge (sign 1) or below it (-1). Sutherland and Hodgman 1974,
    "Reentrant polygon clipping"."""
    if not len(ring) or (sign * (ring[:, axis] - edge)).min() >= 0:
        return ring
    ends = np.roll(ring, -1, axis=0)
    inside, inside_end = (sign * (part[:, axis] - edge) >= 0 for part in (ring, ends))
    crosses = inside != inside_end
    steps = np.where(crosses, ends[:, axis] - ring[:, axis], 1.0)
    cuts = ring + ((edge - ring[:, axis]) / steps)[:, None] * (ends - ring)
    mask = np.column_stack([inside, crosses]).ravel()
    result: Floats = np.stack([ring, cuts], axis=1).reshape(-1, 2)[mask]
    return result


def distance_km(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Return the distance in km between two points (latitude, longitude), on a sphere."""
    (lat_a, lon_a), (lat_b, lon_b) = (tuple(map(math.radians, point)) for point in (a, b))
    half = math.sin((lat_b - lat_a) / 2) ** 2
    half += math.cos(lat_a) * math.cos(lat_b) * math.sin((lon_b - lon_a) / 2) ** 2
    return 2 * _EARTH_KM * math.asin(min(1.0, math.sqrt(half)))


@dataclass(frozen=True)
class BaseLayer:
    """The lines, areas and points in a file, each [longitude, latitude], with names."""

    lines: list[Line] = field(default_factory=list)
    areas: list[tuple[str, list[Line]]] = field(default_factory=list)
    points: list[tuple[str, list[float]]] = field(default_factory=list)


def read_base(path: Path) -> BaseLayer:
    """Read a vector file of any shapes. Raises DecodeError, which names the file."""
    layer = BaseLayer()
    with naming(path, DecodeError, "give a vector file, such as GeoJSON"):
        for shape in read_shapes(path)[0]:
            name = shape.text("name") or shape.text("NAME")
            _add(layer, short(name, MAX_NAME), shape.geometry)
        corners = sum(map(len, layer.lines)) + len(layer.points)
        corners += sum(len(ring) for _, rings in layer.areas for ring in rings)
        if not 0 < corners <= MAX_CORNERS:
            raise DecodeError(f"{corners:,} corners; 1 to {MAX_CORNERS:,} can be drawn")
    return layer


def place_name(point: Point, base: BaseLayer, cell_km: float, *, finely: bool = False) -> str:
    """Return a name for a point on a map; "" if nothing is near.

    The name is that of the user's area around it, else of the user's point within a cell's width,
    else of the largest packaged place within half of it, else of the nearest one.

    Args:
        point: The center of a cell.
        base: The areas and points of the user.
        cell_km: The width of a cell.
        finely: Whether to name the nearest place of any size, with the distance to 100 meters and
            the direction to a sixteenth of the compass.
    """
    for name, rings in base.areas:
        if name and sum(_inside(ring, point) for ring in rings) % 2:
            return name
    named = [(distance_km(point, (y, x)), name) for name, (x, y) in base.points if name]
    if named and min(named)[0] <= cell_km:
        return min(named)[1]
    basemap, (at,) = _bundled(), _directions(np.array([point[::-1]]))
    within = 0.0 if finely else cell_km / 2 / _EARTH_KM
    index = min(basemap["tree"].query_ball_point(at, within), default=-1)  # by number of people
    index = int(basemap["tree"].query(at)[1]) if index < 0 else index
    name, (x, y) = str(basemap["names"][index]), basemap["places"][index].tolist()
    if (away := distance_km(point, (y, x))) > FAR:
        return ""
    if away <= max(cell_km, 2.0):
        return name
    east = ((point[1] - x + 540) % 360 - 180) * math.cos(math.radians(y))
    turn = math.degrees(math.atan2(east, point[0] - y))
    if finely:
        return f"{away:.1f} km {_COMPASS[round(turn / 22.5) % 16]} of {name}"
    return f"{away:.0f} km {_COMPASS[2 * round(turn / 45) % 16]} of {name}"


def _add(layer: BaseLayer, name: str, geometry: Any) -> None:
    """Add a shapely geometry part by part; None and empty geometries have nothing to draw."""
    if not geometry:
        return
    for part in getattr(geometry, "geoms", ()):
        _add(layer, name, part)
    if geometry.geom_type == "Polygon":
        rings = (geometry.exterior, *geometry.interiors)
        layer.areas.append((name, [[list(corner) for corner in ring.coords] for ring in rings]))
    elif geometry.geom_type == "Point":
        layer.points.append((name, list(geometry.coords[0])))
    elif not hasattr(geometry, "geoms"):
        layer.lines.append([list(corner) for corner in geometry.coords])


def _inside(ring: Line, point: Point) -> bool:
    y, x = point
    sides = zip(ring, [*ring[1:], *ring[:1]], strict=True)
    crossed = ((xb - xa) * (y - ya) / (yb - ya) + xa
               for (xa, ya), (xb, yb) in sides if (ya > y) != (yb > y))  # fmt: skip
    return sum(x < at for at in crossed) % 2 == 1


def map_ground(
    outlines: Sequence[Sequence[Point]], base: BaseLayer, moved: Callable[[float], float]
) -> dict[str, Any]:
    """Return the cells of a map and its surroundings.

    Args:
        outlines: The latitudes and longitudes of the corners of each cell.
        base: The user's streets, districts and stations.
        moved: A function that converts a longitude to the map's, which continue beyond 180.
    """
    cells = [[[round(x, PLACES), round(y, PLACES)] for y, x in outline] for outline in outlines]
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
    """Return the rings of each area, [longitude, latitude], in the map's longitudes."""
    parts = ([geometry["coordinates"]] if geometry["type"] == "Polygon" else geometry["coordinates"]
             for geometry in areas.geometries)  # fmt: skip
    return [[_shifted(ring, moved) for part in some for ring in part] for some in parts]


def map_json(data: Mapping[str, Any]) -> str:
    """Return the data as JSON that is safe within a page."""
    drawn = {name: value for name, value in data.items() if name != "texts"}
    text = json.dumps(drawn, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.replace("<", "\\u003c")


def counted(shares: Floats) -> list[int]:
    """Return shares as whole multiples of `UNIT`, as the page's script reads them."""
    counts: list[int] = np.rint(shares / UNIT).astype(np.int64).tolist()
    return counts
