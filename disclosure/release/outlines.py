"""The outline of a group of map cells as GeoJSON, without the edges that two of them share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

Point = tuple[float, float]
Edge = tuple[Point, Point]


def join_outlines(geometries: Sequence[Any]) -> dict[str, Any]:
    """Join geometries into one MultiPolygon that covers them.

    Args:
        geometries: GeoJSON Polygon or MultiPolygon, without holes, counter-clockwise; neighbours
            have their corners in common, as cells of one level have.

    Returns:
        One polygon a connected outline. A hole that the cells leave in their middle is drawn as
        the ring of the first polygon that holds it.
    """
    edges: dict[Edge, int] = defaultdict(int)
    for ring in _rings(geometries):
        for edge in pairwise(ring):
            edges[edge] += 1
    border = [edge for edge in edges if edge[::-1] not in edges]
    rings = list(_chains(border))
    outer = [[ring] for ring in rings if _area(ring) > 0]
    for hole in (ring for ring in rings if _area(ring) < 0):
        holder = next((part for part in outer if _holds(part[0], hole[0])), None)
        if holder is not None:
            holder.append(hole)
    return {"type": "MultiPolygon", "coordinates": [[_plain(r) for r in part] for part in outer]}


def _rings(geometries: Sequence[Any]) -> Iterator[list[Point]]:
    for geometry in geometries:
        parts = geometry["coordinates"]
        for part in [parts] if geometry["type"] == "Polygon" else parts:
            yield [(float(x), float(y)) for x, y in part[0]]


def _chains(border: Sequence[Edge]) -> Iterator[list[Point]]:
    """The closed rings of the border's edges."""
    leaving: dict[Point, list[Point]] = defaultdict(list)
    for a, b in border:
        leaving[a].append(b)
    while leaving:
        start = next(iter(leaving))
        ring = [start]
        while True:
            here = ring[-1]
            ahead = leaving[here].pop()
            if not leaving[here]:
                del leaving[here]
            ring.append(ahead)
            if ahead == start or ahead not in leaving:
                break
        if ring[-1] == start:
            yield ring


def _area(ring: Sequence[Point]) -> float:
    """Signed, positive for counter-clockwise (the shoelace formula)."""
    return sum(xa * yb - xb * ya for (xa, ya), (xb, yb) in pairwise(ring)) / 2


def _holds(ring: Sequence[Point], point: Point) -> bool:
    """Whether a point lies in a ring: an odd number of edges is crossed going east."""
    x, y = point
    crossed = False
    for (xa, ya), (xb, yb) in pairwise(ring):
        if (ya > y) != (yb > y) and x < xa + (y - ya) / (yb - ya) * (xb - xa):
            crossed = not crossed
    return crossed


def _plain(ring: Sequence[Point]) -> list[list[float]]:
    return [[x, y] for x, y in ring]
