"""The user's own GeoJSON of streets, districts or stations, drawn under the names of a map."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from decoder.errors import DecodeError
from decoder.files import naming
from decoder.output.basemap import cities, distance_km
from rappor_core.grid.box import Point

Line = list[list[float]]

MOST_CORNERS = 300_000  # about 5 MB of page
LONGEST_NAME = 60
FAR = 60.0  # km: a city that far away says nothing of a cell
_POINTS = ("N", "NE", "E", "SE", "S", "SW", "W", "NW")
_FINE_POINTS = ("N", "NNE", "NE", "ENE", "E", "ESE", "SE", "SSE",
                "S", "SSW", "SW", "WSW", "W", "WNW", "NW", "NNW")  # fmt: skip
_DEPTHS = {"Point": 0, "MultiPoint": 1, "LineString": 1, "MultiLineString": 2, "Polygon": 2,
           "MultiPolygon": 3}  # fmt: skip


@dataclass(frozen=True)
class BaseLayer:
    """The lines, areas and points of a GeoJSON, each [longitude, latitude], with names."""

    lines: list[Line] = field(default_factory=list)
    areas: list[tuple[str, list[Line]]] = field(default_factory=list)
    points: list[tuple[str, list[float]]] = field(default_factory=list)

    def shifted(self, unrolled: Callable[[float], float]) -> BaseLayer:
        """A copy whose longitudes go on beyond 180, as those of the map do."""

        def moved(line: Line) -> Line:
            return [[round(unrolled(x), 5), round(y, 5)] for x, y in line]

        return BaseLayer(
            [moved(line) for line in self.lines],
            [(name, [moved(ring) for ring in rings]) for name, rings in self.areas],
            [(name, moved([point])[0]) for name, point in self.points],
        )


def read_base(path: Path) -> BaseLayer:
    """Read a GeoJSON of any shapes. Raises DecodeError, naming the file, if it is not one."""
    layer = BaseLayer()
    with naming(path, DecodeError, "give a GeoJSON FeatureCollection, Feature or geometry"):
        try:
            for name, shape in _shapes(json.loads(path.read_bytes()), ""):
                _add(layer, name, shape["type"], shape["coordinates"])
        except (AttributeError, IndexError, KeyError, TypeError, RecursionError) as error:
            raise ValueError("its members are not those of a GeoJSON") from error
        corners = sum(map(len, layer.lines)) + len(layer.points)
        corners += sum(len(ring) for _, rings in layer.areas for ring in rings)
        if not 0 < corners <= MOST_CORNERS:
            raise ValueError(f"{corners:,} corners, and 1 to {MOST_CORNERS:,} can be drawn")
    return layer


def place_name(point: Point, base: BaseLayer, cell_km: float, *, finely: bool = False) -> str:
    """The name of the area, point or city nearest to a cell's centre (latitude, longitude); ""
    if none is near.

    finely: whether distance and direction from a city are told to 100 metres and a sixteenth of
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
    away, name, x, y = min((distance_km(point, (y, x)), name, x, y) for name, x, y in cities())
    if away > FAR:
        return ""
    if away <= max(cell_km, 2.0):
        return name
    east = ((point[1] - x + 540) % 360 - 180) * math.cos(math.radians(y))
    turn = math.degrees(math.atan2(east, point[0] - y))
    if finely:
        return f"{away:.1f} km {_FINE_POINTS[round(turn / 22.5) % 16]} of {name}"
    return f"{away:.0f} km {_POINTS[round(turn / 45) % 8]} of {name}"


def _shapes(one: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Each geometry with the name of its feature."""
    if one["type"] == "FeatureCollection":
        for part in one["features"]:
            yield from _shapes(part, "")
    elif one["type"] == "Feature":
        known = one.get("properties") or {}
        if one.get("geometry"):
            yield from _shapes(one["geometry"], _name(known.get("name") or known.get("NAME")))
    elif one["type"] == "GeometryCollection":
        for part in one["geometries"]:
            yield from _shapes(part, name)
    elif one["type"] in _DEPTHS:
        yield name, one
    else:
        raise ValueError(f"type {str(one['type'])[:40]!r} is not one of GeoJSON")


def _name(text: Any) -> str:
    """Printable, and short: it comes from a stranger's file and goes to a terminal."""
    kept = "".join(c for c in str(text or "") if c.isprintable()).strip()
    return kept if len(kept) <= LONGEST_NAME else kept[: LONGEST_NAME - 1] + "…"


def _add(layer: BaseLayer, name: str, kind: str, coordinates: Any) -> None:
    if kind.startswith("Multi"):
        for part in coordinates:
            _add(layer, name, kind.removeprefix("Multi"), part)
    elif kind == "Point":
        layer.points.append((name, _corner(coordinates)))
    elif kind == "LineString":
        layer.lines.append([_corner(corner) for corner in coordinates])
    else:
        rings = [[_corner(corner) for corner in ring] for ring in coordinates]
        layer.areas.append((name, rings))


def _corner(position: Any) -> list[float]:
    x, y = float(position[0]), float(position[1])
    if not (abs(x) <= 360 and abs(y) <= 90):
        raise ValueError(f"position {x:g}, {y:g} is not a longitude and latitude in degrees")
    return [x, y]


def _inside(ring: Line, point: Point) -> bool:
    latitude, longitude = point
    odd = False
    for (xa, ya), (xb, yb) in zip(ring, [*ring[1:], *ring[:1]], strict=True):
        crosses = (ya > latitude) != (yb > latitude)
        if crosses and longitude < (xb - xa) * (latitude - ya) / (yb - ya) + xa:
            odd = not odd
    return odd
