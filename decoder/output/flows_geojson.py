"""Flows as lines in GeoJSON (RFC 7946): longitude first, cut at 180 degrees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from decoder.output.density_csv import DECIMALS
from rappor_core.grid.box import Point

THINNEST, WIDEST = 1.0, 12.0  # pixels


def drawn_share(row: Mapping[str, Any]) -> float:
    """The share that the width of a flow stands for: `flow_share`, moved into its interval where
    the flow is detected."""
    share = row["flow_share"]
    if row["detected"]:
        share = min(max(share, row["low"]), row["high"])
    return float(max(share, 0.0))


def top_drawn(rows: Sequence[Mapping[str, Any]]) -> float:
    """The largest share that is drawn as a line, above 0."""
    apart = (drawn_share(row) for row in rows if row["origin"] != row["destination"])
    return max(1e-9, *apart, 0.0)


def line_width(share: float, top: float) -> float:
    """Pixels of a line, which grow with the share. top: the share of the widest."""
    return THINNEST + (WIDEST - THINNEST) * min(share / top, 1.0)


def placed_flows(
    rows: Sequence[Mapping[str, Any]], centres: Mapping[str, Point], metric: str
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield geometry and properties of each flow.

    Args:
        rows: of flows or of pairs of zones; those with a side that has no place are left out.
        centres: latitude and longitude of each side by its name.
        metric: name of the metric, a property of each feature.

    Yields:
        A LineString from origin to destination, or a Point where both are one; and the columns of
        the row with its width in pixels.
    """
    placed = [row for row in rows if {row["origin"], row["destination"]} <= centres.keys()]
    top = top_drawn(placed)
    for row in placed:
        shape = flow_line(centres[row["origin"]], centres[row["destination"]])
        width = round(line_width(drawn_share(row), top), 2)
        yield shape, {"metric": metric, **row, "width": width}


def flow_line(start: Point, end: Point) -> dict[str, Any]:
    """A line the short way round the earth, in two parts where it crosses 180 degrees."""
    (south, west), (north, east) = start, end
    if start == end:
        return {"type": "Point", "coordinates": _position(west, south)}
    turn = 360 * round((west - east) / 360)
    east += turn
    if not turn:
        return {"type": "LineString", "coordinates": [_position(west, south),
                                                      _position(east, north)]}  # fmt: skip
    edge = 180.0 if east > west else -180.0
    across = south + (edge - west) / (east - west) * (north - south)
    parts = [
        [_position(west, south), _position(edge, across)],
        [_position(-edge, across), _position(east - turn, north)],
    ]
    return {"type": "MultiLineString", "coordinates": parts}


def _position(longitude: float, latitude: float) -> list[float]:
    return [round(longitude, DECIMALS), round(latitude, DECIMALS)]
