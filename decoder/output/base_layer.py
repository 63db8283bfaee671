"""The user's own file of streets, districts or stations, drawn under the names of a map."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from decoder.errors import DecodeError
from decoder.files import naming
from decoder.output.basemap import cities, distance_km
from decoder.tables.format import short
from decoder.tables.vector_files import read_shapes
from rappor_core.grid.box import Point

Line = list[list[float]]

MAX_CORNERS = 300_000  # about 5 MB of page
MAX_NAME = 60
FAR = 60.0  # km: a city that far away says nothing of a cell
_POINTS = ("N", "NE", "E", "SE", "S", "SW", "W", "NW")
_FINE_POINTS = ("N", "NNE", "NE", "ENE", "E", "ESE", "SE", "SSE",
                "S", "SSW", "SW", "WSW", "W", "WNW", "NW", "NNW")  # fmt: skip


@dataclass(frozen=True)
class BaseLayer:
    """The lines, areas and points of a file, each [longitude, latitude], with names."""

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


def _add(layer: BaseLayer, name: str, geometry: Any) -> None:
    """Add a shapely geometry, part by part."""
    if hasattr(geometry, "geoms"):
        for part in geometry.geoms:
            _add(layer, name, part)
    elif geometry.geom_type == "Polygon":
        rings = (geometry.exterior, *geometry.interiors)
        layer.areas.append((name, [_line(ring) for ring in rings]))
    elif geometry.geom_type == "Point":
        layer.points.append((name, _line(geometry)[0]))
    else:
        layer.lines.append(_line(geometry))


def _line(geometry: Any) -> Line:
    return [list(corner) for corner in geometry.coords]


def _inside(ring: Line, point: Point) -> bool:
    latitude, longitude = point
    odd = False
    for (xa, ya), (xb, yb) in zip(ring, [*ring[1:], *ring[:1]], strict=True):
        crosses = (ya > latitude) != (yb > latitude)
        if crosses and longitude < (xb - xa) * (latitude - ya) / (yb - ya) + xa:
            odd = not odd
    return odd
