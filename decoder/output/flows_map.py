"""Geometry of the flow map: curves, arrowheads, rings and land in the units of a view box."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from decoder.output.base_layer import BaseLayer
from decoder.output.basemap import View, surroundings
from decoder.output.flows_geojson import drawn_share, line_width, top_drawn
from decoder.results.warnings import percent
from rappor_core.grid.box import Point
from rappor_core.grid.drawing import cell_outline, unrolled
from rappor_core.metrics.flow import Flow

WIDE, NARROW = 960, 400  # units of the view boxes
MARGIN = 1.06  # of the map around the cells
BEND = 0.16  # of a curve, in its lengths
LARGEST_RING = 17.0
SMALLEST_RING = 1.5
_SHAPES = ((0.45, 0.85), (0.8, 1.4))  # least and most height over width, wide and narrow
_FAR = 0.2  # of a curve's length, at most, that an arrowhead takes


@dataclass(frozen=True)
class MapLine:
    """A flow on the map: a curve, and the corners of its arrowhead, "" where the flow is not told
    from zero."""

    path: str
    head: str
    width: float
    told: bool
    title: str


@dataclass(frozen=True)
class MapRing:
    """People who stay in a cell, as the area of a circle."""

    x: float
    y: float
    radius: float
    told: bool
    title: str


@dataclass(frozen=True)
class MapCity:
    """A city of the base map."""

    x: float
    y: float
    name: str


@dataclass(frozen=True)
class FlowMap:
    """A map of `width` by `height` units. areas, outlines: path data by class of the style."""

    width: int
    height: int
    is_narrow: bool
    areas: tuple[tuple[str, str], ...]
    lines: tuple[MapLine, ...]
    rings: tuple[MapRing, ...]
    cities: tuple[MapCity, ...]


Project = Callable[[float, float], tuple[float, float]]


def flow_maps(found: Mapping[str, Any], flow: Flow) -> tuple[FlowMap, ...]:
    """The map for wide pages, then that for narrow ones.

    found: content of results.json.  flow: the settings in it.
    """
    outlines = [cell_outline(flow.grid, name) for name in flow.cells]
    titles = [flow_title(row, found["level"]) for row in found["flows"]]
    return tuple(_map(found, flow, outlines, titles, narrow=narrow) for narrow in (False, True))


def flow_title(row: Mapping[str, Any], level: float) -> str:
    """A flow in words: from where to where, its interval, whether it is told from zero."""
    start, end = (side_text(row, side) for side in ("origin", "destination"))
    way = f"stay in {start}" if row["origin"] == row["destination"] else f"{start} to {end}"
    far = "" if not row["km"] else f", {row['km']:.3g} km"
    known = f"{percent(row['low'])} to {percent(row['high'])} ({100 * level:g} %)"
    if row["told"]:
        return f"{way}{far}: {percent(row['estimate'])} of people, {known}"
    return f"{way}{far}: not told from zero, {known}; guess {percent(row['flow_share'])}"


def side_text(row: Mapping[str, Any], side: str) -> str:
    """A side's name with its code, or the code alone."""
    name = row[f"{side}_name"]
    return f"{name} ({row[side]})" if name else str(row[side])


def _map(
    found: Mapping[str, Any],
    flow: Flow,
    outlines: Sequence[Sequence[Point]],
    titles: Sequence[str],
    *,
    narrow: bool,
) -> FlowMap:
    width = NARROW if narrow else WIDE
    view, project, height = _projection(outlines, width, *_SHAPES[narrow])
    places = {name: project(unrolled(flow.grid, lon), lat)
              for name, (lat, lon) in zip(flow.cells, flow.centres, strict=True)}  # fmt: skip
    lines, rings = _flows(found["flows"], titles, places, 0.6 if narrow else 1.0)
    base = BaseLayer(**found["base"]).shifted(partial(unrolled, flow.grid))
    around = surroundings(view)
    return FlowMap(
        width,
        height,
        narrow,
        tuple(
            (name, data)
            for name, shapes in (
                ("land", around["land"]),
                ("water", around["lakes"]),
                ("coast", around["coast"]),
                ("river", around["rivers"]),
                ("border", around["borders"]),
                ("grid", [[(x, y) for y, x in outline] for outline in outlines]),
                ("district", [ring for _, rings in base.areas for ring in rings]),
                ("street", base.lines),
            )
            if (data := _paths(shapes, project, closed=name in _CLOSED))
        ),
        lines,
        rings,
        tuple(_city(name, x, y, project) for name, x, y in around["cities"]),
    )


_CLOSED = ("land", "water", "grid", "district")


def _projection(
    outlines: Sequence[Sequence[Point]], width: int, least: float, most: float
) -> tuple[View, Project, int]:
    """A plate carree of the cells with a margin, true to scale in the middle.

    least, most: height over width, between which the view is widened.
    """
    latitudes = [lat for outline in outlines for lat, _ in outline]
    longitudes = [lon for outline in outlines for _, lon in outline]
    middle = (min(latitudes) + max(latitudes)) / 2, (min(longitudes) + max(longitudes)) / 2
    squeeze = math.cos(math.radians(middle[0]))
    high = MARGIN * (max(latitudes) - min(latitudes))
    wide = MARGIN * (max(longitudes) - min(longitudes)) * squeeze
    wide, high = max(wide, high / most), max(high, wide * least)
    scale = width / wide
    west, north = middle[1] - wide / squeeze / 2, middle[0] + high / 2
    view = View(west, middle[0] - high / 2, west + wide / squeeze, north)

    def project(x: float, y: float) -> tuple[float, float]:
        return (x - west) * squeeze * scale, (north - y) * scale

    return view, project, round(high * scale)


def _flows(
    rows: Sequence[Mapping[str, Any]],
    titles: Sequence[str],
    places: Mapping[str, tuple[float, float]],
    size: float,
) -> tuple[tuple[MapLine, ...], tuple[MapRing, ...]]:
    """Lines and rings; what is told from zero is drawn last, over the others."""
    top = top_drawn(rows)
    stays = [drawn_share(row) for row in rows if row["origin"] == row["destination"]]
    largest = max(1e-9, *stays, 0.0)
    lines, rings = [], []
    for row, title in sorted(zip(rows, titles, strict=True), key=lambda one: one[0]["told"]):
        share, told = drawn_share(row), row["told"]
        if row["origin"] == row["destination"]:
            radius = max(SMALLEST_RING, LARGEST_RING * size * math.sqrt(share / largest))
            x, y = places[row["origin"]]
            rings.append(MapRing(round(x, 1), round(y, 1), round(radius, 1), told, title))
        else:
            width = max(1.0, size * line_width(share, top)) if told else 1.0
            path, head = _curve(places[row["origin"]], places[row["destination"]], width)
            lines.append(MapLine(path, head if told else "", round(width, 2), told, title))
    return tuple(lines), tuple(rings)


def _curve(start: tuple[float, float], end: tuple[float, float], width: float) -> tuple[str, str]:
    """A curve bent to the right of its way, and its arrowhead: two ways do not overlap."""
    (xa, ya), (xb, yb) = start, end
    bend = (xa + xb) / 2 - BEND * (yb - ya), (ya + yb) / 2 + BEND * (xb - xa)
    length = max(math.hypot(xb - bend[0], yb - bend[1]), 1e-9)
    along = (xb - bend[0]) / length, (yb - bend[1]) / length
    head = min(5 + 1.6 * width, max(2 * _FAR * length, 4.0))
    neck = xb - head * along[0], yb - head * along[1]
    half = 0.36 * head + width / 4
    corners = (
        (xb, yb),
        (neck[0] - half * along[1], neck[1] + half * along[0]),
        (neck[0] + half * along[1], neck[1] - half * along[0]),
    )
    path = f"M{_at(xa, ya)}Q{_at(*bend)} {_at(*neck)}"
    return path, " ".join(_at(*corner) for corner in corners)


def _paths(shapes: Sequence[Any], project: Project, *, closed: bool) -> str:
    end = "Z" if closed else ""
    return "".join(
        "M" + "L".join(_at(*project(x, y)) for x, y in shape) + end for shape in shapes if shape
    )


def _city(name: str, x: float, y: float, project: Project) -> MapCity:
    across, down = project(x, y)
    return MapCity(round(across, 1), round(down, 1), name)


def _at(x: float, y: float) -> str:
    return f"{x:.1f},{y:.1f}"
