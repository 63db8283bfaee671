"""Geometry of the picture of a map: what a page shows before its script runs, and without one.

Made of the data that map.js draws (`density_html.map_data`, `map_changes.map_changes`,
`flows_map.flow_map_data`); `templates/map_frame.html.j2` writes it as SVG.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

from decoder.output.basemap import View, surroundings
from decoder.output.density_text import NONE_DETECTED
from decoder.output.palette import DETECTED_FROM, PICTURE_STEPS, UNDETECTED_STEPS, UNDETECTED_TO
from decoder.tables.format import percent, points

WIDTH = 640  # units of the view box
BEND = 0.16  # of the curve of a flow, in its lengths
KM_A_DEGREE = 111.32
_SHAPE = (0.45, 1.3)  # least and most height over width
_MARGIN = 1.05
_FAR = 0.2  # of a curve's length, at most, that an arrowhead takes
_LETTER, _LINE = 8.0, 18.0  # room of a name, in units
_CLOSED = ("land", "water", "area", "district", "box")

Corner = Sequence[float]
Project = Callable[[Corner], tuple[float, float]]


def first_shown(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The map whose table and picture a page holds before its script runs: the last of the window
    that is shown first."""
    shown: Mapping[str, Any] = next(
        each for each in data["maps"][::-1] if each["window"] == data["first"]
    )
    return shown


def map_picture(data: Mapping[str, Any]) -> dict[str, Any]:
    """Lay out the picture of the first map.

    Args:
        data: as the script takes it.

    Returns:
        `width` and `height` in units; `caption`: slot, then window with the number of reports;
        `ground`, `over`: path data by class of the style, below the cells and above them; `cells`:
        path data by the class of their color; `detected`: the outline of the detected cells;
        `flows`, `spots`, `names`; `ruler`: its length in units, and its text; `legend`: None for
        flows, whose widths have no colors.
    """
    one = first_shown(data)
    rings: list[list[Corner]] = data["cells"]
    view, project, height = _projection(rings)
    around, base = surroundings(view), data["base"]
    places = [*around["cities"], *((name, *at) for name, at in base["points"])]
    flows = bool(data.get("flows"))
    detected = [] if flows else one["detected"]
    return {
        "width": WIDTH,
        "height": height,
        "caption": (one["slot"], _caption(one, len(rings), flows=flows)),
        "ground": _layers({"land": around["land"], "water": around["lakes"]}, project),
        "cells": () if flows else _shaded(data, one, project),
        "over": _layers(
            {
                "river": around["rivers"],
                "coast": around["coast"],
                "border": around["borders"],
                "box": [_box(rings)],
                "grid": [[*ring, ring[0]] for ring in rings] if flows else [],
                "street": base["lines"],
                "area": [ring for _, parts in base["areas"] for ring in parts],
                "district": [ring for parts in data.get("areas", ()) for ring in parts],
            },
            project,
        ),
        "detected": _border([rings[i] for i in detected], project),
        "flows": list(_flows(one, rings, project)) if flows else [],
        "spots": [project(at) for at in data["points"]],
        "names": list(_names(places, project, height)),
        "ruler": _ruler(view),
        "legend": None if flows else _legend(data),
    }


def curve(start: tuple[float, float], end: tuple[float, float], width: float) -> tuple[str, str]:
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
    path = f"M{_at((xa, ya))}Q{_at(bend)} {_at(neck)}"
    return path, " ".join(_at(corner) for corner in corners)


def _caption(one: Mapping[str, Any], num_cells: int, *, flows: bool) -> str:
    marks, what = (len(one["ends"]), "flows drawn") if flows else (num_cells, "cells")
    said = "changed" if "before" in one else "detected"
    return (
        f"{one['window']}: {one['reports']:,} reports; {len(one['detected']):,} of {marks:,} "
        f"{what} {said}"
    )


def _mercator(latitude: float) -> float:
    """Degrees from the equator in the Mercator projection, in which shapes are true."""
    inside = max(-85.0, min(85.0, latitude))
    return math.degrees(math.log(math.tan(math.pi / 4 + math.radians(inside) / 2)))


def _latitude(mercator: float) -> float:
    return math.degrees(math.atan(math.sinh(math.radians(mercator))))


def _projection(rings: Sequence[Sequence[Corner]]) -> tuple[View, Project, int]:
    """The view of all cells with a margin, the projection to units, and the height."""
    across = [x for ring in rings for x, _ in ring]
    up = [_mercator(y) for ring in rings for _, y in ring]
    middle = (min(across) + max(across)) / 2, (min(up) + max(up)) / 2
    wide = _MARGIN * max(max(across) - min(across), 1e-6)
    high = _MARGIN * max(max(up) - min(up), 1e-6)
    wide, high = max(wide, high / _SHAPE[1]), max(high, wide * _SHAPE[0])
    scale = WIDTH / wide
    west, top = middle[0] - wide / 2, middle[1] + high / 2
    view = View(west, _latitude(top - high), west + wide, _latitude(top))

    def project(corner: Corner) -> tuple[float, float]:
        return (corner[0] - west) * scale, (top - _mercator(corner[1])) * scale

    return view, project, round(high * scale)


def _box(rings: Sequence[Sequence[Corner]]) -> list[Corner]:
    """The corners of the rectangle around all cells."""
    (west, *_, east), (south, *_, north) = (
        sorted(corner[axis] for ring in rings for corner in ring) for axis in (0, 1)
    )
    return [(west, south), (east, south), (east, north), (west, north)]


def _layers(
    shapes: Mapping[str, Iterable[Sequence[Corner]]], project: Project
) -> tuple[tuple[str, str], ...]:
    found = (
        (name, "".join(_path(shape, project, closed=name in _CLOSED) for shape in parts))
        for name, parts in shapes.items()
    )
    return tuple((name, path) for name, path in found if path)


def _path(shape: Sequence[Corner], project: Project, *, closed: bool) -> str:
    """Path data to whole units, each place once in a row; "" of a shape smaller than one."""
    placed = (project(corner) for corner in shape)
    corners = [at for at, _ in groupby(f"{x:.0f},{y:.0f}" for x, y in placed)]
    return "M" + "L".join(corners) + ("Z" if closed else "") if len(corners) > 1 else ""


def _cell(ring: Sequence[Corner], project: Project) -> str:
    """Path data of a cell: from its first corner on by steps, which are short."""
    places = [[round(part, 1) for part in project(corner)] for corner in ring]
    steps = (
        f"{after[0] - before[0]:.1f},{after[1] - before[1]:.1f}"
        for before, after in pairwise(places)
    )
    return f"M{_at(places[0])}l{' '.join(steps)}z"


def _shaded(
    data: Mapping[str, Any], one: Mapping[str, Any], project: Project
) -> tuple[tuple[str, str], ...]:
    """One path for all cells of a colour; where there is nothing the land shows."""
    moved = bool(data.get("difference"))
    found: dict[int, list[str]] = {}
    for ring, shade in zip(data["cells"], one["shade"], strict=True):
        if shade or moved:
            step = round(shade / 255 * PICTURE_STEPS)
            found.setdefault(step, []).append(_cell(ring, project))
    name = "turn" if moved else "shade"
    return tuple((f"{name}-{step}", "".join(found[step])) for step in sorted(found))


def _border(rings: Sequence[Sequence[Corner]], project: Project) -> str:
    """The edges that only one of some cells has."""
    edges: Counter[tuple[tuple[float, float], ...]] = Counter()
    for ring in rings:
        corners = [(round(x, 4), round(y, 4)) for x, y in ring]
        for a, b in zip(corners, [*corners[1:], corners[0]], strict=True):
            edges[(a, b) if a < b else (b, a)] += 1
    return "".join(
        f"M{_at(project(a))}L{_at(project(b))}" for (a, b), times in edges.items() if times % 2
    )


def _flows(
    one: Mapping[str, Any], rings: Sequence[Sequence[Corner]], project: Project
) -> Iterable[dict[str, Any]]:
    """The flows, those not detected first, under the others.

    Each is a curve, with the corners of its arrowhead where it is detected; or a ring, of a radius
    above 0, for those who stay in a cell.
    """
    detected = set(one["detected"])
    centres = [project(_centre(ring)) for ring in rings]
    for i in sorted(range(len(one["ends"])), key=lambda i: i in detected):
        (origin, destination), size = one["ends"][i], one["size"][i]
        start, end = centres[origin], centres[destination]
        path = head = ""
        if origin != destination:
            path, head = curve(start, end, size)
        ring = size if origin == destination else 0.0
        yield {
            "path": path, "head": head if i in detected else "", "width": size, "radius": ring,
            "x": round(start[0], 1), "y": round(start[1], 1), "detected": i in detected,
            "title": one["titles"][i]
        }  # fmt: skip


def _centre(ring: Sequence[Corner]) -> tuple[float, float]:
    """The mean of the corners, as map.js takes it."""
    up = sum(_mercator(y) for _, y in ring) / len(ring)
    return sum(x for x, _ in ring) / len(ring), _latitude(up)


def _names(
    places: Sequence[tuple[str, float, float]], project: Project, height: int
) -> Iterable[dict[str, Any]]:
    """Places within the picture; a name that would lie on another, or over the edge, is left
    out."""
    taken: list[tuple[float, float, float, float]] = []
    for name, *at in places:
        x, y = project(at)
        if not (0 < x < WIDTH and 0 < y < height):
            continue
        box = (x, y - _LINE, x + 7 + _LETTER * len(name), y)
        free = box[2] < WIDTH and not any(
            box[0] < right and left < box[2] and box[1] < low and high < box[3]
            for left, high, right, low in taken
        )
        if free:
            taken.append(box)
        yield {"x": round(x, 1), "y": round(y, 1), "name": name if free else ""}


def _ruler(view: View) -> tuple[float, str]:
    middle = (view.south + view.north) / 2
    unit = KM_A_DEGREE * math.cos(math.radians(middle)) * (view.east - view.west) / WIDTH
    most = unit * WIDTH / 4
    power = 10 ** math.floor(math.log10(most))
    km = next(part * power for part in (5, 2, 1) if part * power <= most)
    return round(km / unit, 1), f"{km:g} km" if km >= 1 else f"{1000 * km:g} m"


def _legend(data: Mapping[str, Any]) -> dict[str, Any]:
    """What the colors mean: classes of the strip with the texts below it, and of the pale ones."""
    top = data["top"]
    if data.get("difference"):
        steps = range(PICTURE_STEPS + 1)
        pale = [round(PICTURE_STEPS * part) for part in (0.4, 0.45, 0.5, 0.55, 0.6)]
        return {
            "title": "Change of the share, points",
            "strip": [f"turn-{step}" for step in steps],
            "ends": (points(-top), "0", points(top)),
            "pale_strip": [f"turn-{step}" for step in pale],
            "pale": "not outlined: no detected change",
        }
    first = math.ceil(DETECTED_FROM * PICTURE_STEPS)
    none_detected = not any(one["detected"] for one in data["maps"])
    pale = [
        round(PICTURE_STEPS * UNDETECTED_TO * step / UNDETECTED_STEPS)
        for step in range(UNDETECTED_STEPS + 1)
    ]
    shades = [] if none_detected else range(first, PICTURE_STEPS + 1)
    return {
        "title": NONE_DETECTED if none_detected else "Share of all answers, detected cells",
        "strip": [f"shade-{step}" for step in shades],
        "ends": ("0", percent(float(f"{top / 4:.2g}")), percent(float(f"{top:.2g}"))),
        "pale_strip": [f"shade-{step}" for step in pale],
        "pale": "paler: not distinguishable from zero",
    }


def _at(corner: Corner) -> str:
    return f"{corner[0]:.1f},{corner[1]:.1f}"
