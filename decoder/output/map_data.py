"""What all data that map.js draws have in common: places, and shares as whole numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from decoder.density.areas import Areas
from decoder.output.basemap import BaseLayer, View, surroundings
from decoder.typing import Floats
from rappor_core.grid.box import Point

PLACES = 5  # decimals of a degree: a metre
UNIT = 1e-7  # shares are whole numbers of it: a third of the text, written and read in a tenth
_AROUND = 5.0  # how far the page's land and water go: a map's box fills a fifth of them or more


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
    (west, south), (east, north) = corners.min(axis=0), corners.max(axis=0)
    own = base.shifted(moved)
    return {
        "cells": cells,
        "around": surroundings(View(west, south, east, north).wider(_AROUND)),
        "base": {"lines": own.lines, "areas": own.areas, "points": own.points},
    }


def area_outlines(areas: Areas, moved: Callable[[float], float]) -> list[list[list[list[float]]]]:
    """The rings of each area, [longitude, latitude]; longitudes go on beyond 180 as the map's."""

    def rings(geometry: Mapping[str, Any]) -> list[list[list[float]]]:
        coordinates = geometry["coordinates"]
        parts = coordinates if geometry["type"] == "MultiPolygon" else [coordinates]
        return [
            [[round(moved(x), PLACES), round(y, PLACES)] for x, y, *_ in ring]
            for part in parts
            for ring in part
        ]

    return [rings(geometry) for geometry in areas.geometries]


def map_json(data: Mapping[str, Any]) -> str:
    """The data as JSON that is safe within a page."""
    drawn = {name: value for name, value in data.items() if name != "texts"}
    text = json.dumps(drawn, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.replace("<", "\\u003c")


def counted(shares: Floats) -> list[int]:
    """Shares as whole multiples of `UNIT`, as the page's script reads them."""
    counts: list[int] = np.rint(shares / UNIT).astype(np.int64).tolist()
    return counts
