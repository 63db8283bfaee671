"""Coast, borders, water and cities around a map, from files of this package and of the user.

Outlines of Natural Earth (public domain) at 1:50 million, a kilometre or two exact; see
data/basemap.json.gz and docs/tools/make_basemap.py. Nothing comes from a network.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np

from decoder.typing import Floats

Line = list[list[float]]

_PLACES = 3  # decimals of a degree: the outlines are not better
_FILLED = ("land", "lakes")
_LINES = ("coast", "borders", "rivers")


@dataclass(frozen=True)
class View:
    """The visible rectangle of a map, in degrees; longitudes may pass 180."""

    west: float
    south: float
    east: float
    north: float

    def wider(self, factor: float) -> View:
        """A view with the same centre, `factor` times as wide and high."""
        x, y = (self.west + self.east) / 2, (self.south + self.north) / 2
        half_x = factor * (self.east - self.west) / 2
        half_y = factor * (self.north - self.south) / 2
        return View(x - half_x, max(-89.0, y - half_y), x + half_x, min(89.0, y + half_y))


def bundled_source() -> str:
    """Attribution of the packaged coast lines and cities."""
    return f"{_bundled()['source']} ({_bundled()['licence']})"


def surroundings(view: View) -> dict[str, Any]:
    """The packaged geography within a view, as lists of [longitude, latitude]."""
    found: dict[str, Any] = {name: [] for name in (*_FILLED, *_LINES, "cities")}
    for turn in (-360.0, 0.0, 360.0):
        for name in _FILLED:
            for ring in _near(name, view, turn):
                if len(part := _clipped(ring, view)) > 2:
                    found[name].append(part)
                if name == "land":
                    found["coast"] += _passing(ring, view)
        for name in ("borders", "rivers"):
            for line in _near(name, view, turn):
                found[name] += _passing(line, view)
        for name, x, y in _bundled()["cities"]:
            if view.west <= x + turn <= view.east and view.south <= y <= view.north:
                found["cities"].append([name, round(x + turn, _PLACES), y])
    return found


def cities() -> list[tuple[str, float, float]]:
    """Name, longitude and latitude of each city that the package knows."""
    return [(name, x, y) for name, x, y in _bundled()["cities"]]


@lru_cache(maxsize=1)
def _bundled() -> dict[str, Any]:
    packed = files("decoder.output").joinpath("data/basemap.json.gz").read_bytes()
    known: dict[str, Any] = json.loads(gzip.decompress(packed))
    for name in (*_FILLED, "borders", "rivers"):
        known[name] = [
            np.cumsum(np.reshape(line, (-1, 2)), axis=0) * known["unit"] for line in known[name]
        ]
    return known


def _near(name: str, view: View, turn: float) -> Iterator[Floats]:
    for line in _bundled()[name]:
        (west, south), (east, north) = line.min(axis=0), line.max(axis=0)
        apart = west + turn > view.east or east + turn < view.west
        if not (apart or south > view.north or north < view.south):
            yield line + np.array([turn, 0.0])


def _passing(line: Floats, view: View) -> list[Line]:
    """The parts of a line whose segments may cross the view."""
    low, high = np.minimum(line[1:], line[:-1]), np.maximum(line[1:], line[:-1])
    inside = (
        (low[:, 0] <= view.east) & (high[:, 0] >= view.west)
        & (low[:, 1] <= view.north) & (high[:, 1] >= view.south)
    )  # fmt: skip
    edges = np.flatnonzero(np.diff(np.concatenate([[False], inside, [False]]).astype(int)))
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return [np.round(line[first : last + 1], _PLACES).tolist() for first, last in pairs]


def _clipped(ring: Floats, view: View) -> Line:
    """The part of a ring within the view (Sutherland and Hodgman 1974)."""
    part: list[list[float]] = ring.tolist()
    for axis, sign, edge in ((0, 1, view.west), (0, -1, view.east),
                             (1, 1, view.south), (1, -1, view.north)):  # fmt: skip
        kept: list[list[float]] = []
        for a, b in zip(part, [*part[1:], *part[:1]], strict=True):
            inside_a, inside_b = sign * (a[axis] - edge) >= 0, sign * (b[axis] - edge) >= 0
            if inside_a:
                kept.append(a)
            if inside_a != inside_b:
                at = (edge - a[axis]) / (b[axis] - a[axis])
                kept.append([a[i] + at * (b[i] - a[i]) for i in (0, 1)])
        part = kept
    return [[round(x, _PLACES), round(y, _PLACES)] for x, y in part]


def distance_km(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Distance in km between two points (latitude, longitude), on a sphere."""
    (lat_a, lon_a), (lat_b, lon_b) = (tuple(map(math.radians, point)) for point in (a, b))
    half = math.sin((lat_b - lat_a) / 2) ** 2
    half += math.cos(lat_a) * math.cos(lat_b) * math.sin((lon_b - lon_a) / 2) ** 2
    return 2 * 6371.0 * math.asin(min(1.0, math.sqrt(half)))
