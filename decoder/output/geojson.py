"""Outlines of cells in GeoJSON's form (RFC 7946): longitude first, closed, cut at 180 degrees."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from rappor_core.grid.box import Point

DECIMALS = 6  # of a degree: a tenth of a metre


def geometry(outline: Sequence[Point]) -> dict[str, Any]:
    """The GeoJSON geometry of an outline: a Polygon, or a MultiPolygon where it crosses the
    antimeridian.

    outline: latitude and longitude, counter-clockwise; longitudes may pass 180.
    """
    ring = [(longitude, latitude) for latitude, longitude in outline]
    parts = [_closed(part) for turn in (-360, 0, 360) if (part := _on_the_map(ring, turn))]
    if len(parts) == 1:
        return {"type": "Polygon", "coordinates": parts[0]}
    return {"type": "MultiPolygon", "coordinates": parts}


def _on_the_map(ring: Sequence[Point], turn: int) -> list[Point]:
    """The part of a convex ring, turned, between the longitudes -180 and 180; empty if none.

    Sutherland and Hodgman 1974, "Reentrant polygon clipping", for two edges.
    """
    part = [(x + turn, y) for x, y in ring]
    for side in (-1, 1):
        kept: list[Point] = []
        for (xa, ya), (xb, yb) in pairwise([*part, *part[:1]]):
            if side * xa <= 180:
                kept.append((xa, ya))
            if (side * xa <= 180) != (side * xb <= 180):
                edge = 180.0 * side
                kept.append((edge, ya + (edge - xa) / (xb - xa) * (yb - ya)))
        part = kept
    return part if part and min(part)[0] < max(part)[0] else []


def _closed(ring: Sequence[Point]) -> list[list[list[float]]]:
    corners = [[round(x, DECIMALS), round(y, DECIMALS)] for x, y in ring]
    return [[*corners, corners[0]]]
