"""density.svg: a printable picture of the data that map.js draws, one panel per slot."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, groupby, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np

from decoder.output.basemap import View, surroundings
from decoder.output.density_csv import KM_A_DEGREE, NONE_DETECTED
from decoder.output.jinja import THEMES, colors, page_template
from decoder.tables.format import percent

WIDTH = 640  # units of the view box
STEPS = 20  # the number of colors minus one
_SHAPE = (0.45, 1.3)  # minimum and maximum of height over width
_MARGIN = 1.05
_LETTER, _LINE = 8.0, 18.0  # the letter width and line height of names, in units
_CLOSED = ("land", "water", "area", "district", "box")

Corner = Sequence[float]
Project = Callable[[Corner], tuple[float, float]]


def write_picture(data: Mapping[str, Any], path: Path) -> None:
    """Draw the window that the page shows first, from the data of `density_html.map_data`."""
    parts = np.rint(255 * colors(np.linspace(0, 1, STEPS + 1))).astype(int).tolist()
    svg = page_template("map_picture.svg.j2").render(
        theme=THEMES["light"],
        colors=["#{:02x}{:02x}{:02x}".format(*rgb) for rgb in parts],
        **map_picture(data),
    )
    path.write_text(svg, encoding="utf-8")


def map_picture(data: Mapping[str, Any]) -> dict[str, Any]:
    """Lay out the picture: return the variables of `map_picture.svg.j2`, sizes in units.

    The cells of each panel are path data by color step; `ground` and `over` are path data by class.
    """
    rings: list[list[Corner]] = data["cells"]
    (west, *_, east), (south, *_, north) = (
        sorted(corner[axis] for ring in rings for corner in ring) for axis in (0, 1)
    )
    view, project, height = _projection(rings)
    around, base = surroundings(view), data["base"]
    points, cities = ((name, *at) for name, at in base["points"]), around["cities"]
    return {
        "width": WIDTH,
        "height": height,
        "panels": [
            {
                "title": f"{', '.join(filter(None, (drawn['slot'], drawn['window'])))}: "
                f"{drawn['reports']:,} reports; {len(drawn['detected']):,} of {len(rings):,} cells "
                "detected",
                "cells": _shaded(rings, drawn, project),
                "detected": _border([rings[i] for i in drawn["detected"]], project),
            }
            for drawn in data["maps"]
            if drawn["window"] == data["first"]
        ],
        "ground": _layers({"land": around["land"], "water": around["lakes"]}, project),
        "over": _layers(
            {
                "river": around["rivers"],
                "coast": around["coast"],
                "border": around["borders"],
                "box": [[(west, south), (east, south), (east, north), (west, north)]],
                "street": base["lines"],
                "area": [ring for _, parts in base["areas"] for ring in parts],
                "district": [ring for parts in data["areas"] for ring in parts],
            },
            project,
        ),
        "spots": [project(at) for at in data["points"]],
        "names": list(_names(points, cities, project, height)),
        "ruler": _ruler(view),
        "legend": _legend(data),
    }


def _mercator(latitude: float) -> float:
    inside = max(-85.0, min(85.0, latitude))
    return math.degrees(math.log(math.tan(math.pi / 4 + math.radians(inside) / 2)))


def _projection(rings: Sequence[Sequence[Corner]]) -> tuple[View, Project, int]:
    """Return the view of all cells with a margin, the projection to units, and the height."""
    across = [x for ring in rings for x, _ in ring]
    up = [_mercator(y) for ring in rings for _, y in ring]
    middle = (min(across) + max(across)) / 2, (min(up) + max(up)) / 2
    wide = _MARGIN * max(max(across) - min(across), 1e-6)
    high = _MARGIN * max(max(up) - min(up), 1e-6)
    wide, high = max(wide, high / _SHAPE[1]), max(high, wide * _SHAPE[0])
    scale = WIDTH / wide
    west, top = middle[0] - wide / 2, middle[1] + high / 2
    south, north = (
        math.degrees(math.atan(math.sinh(math.radians(edge)))) for edge in (top - high, top)
    )
    view = View(west, south, west + wide, north)

    def project(corner: Corner) -> tuple[float, float]:
        return (corner[0] - west) * scale, (top - _mercator(corner[1])) * scale

    return view, project, round(high * scale)


def _layers(
    shapes: Mapping[str, Iterable[Sequence[Corner]]], project: Project
) -> tuple[tuple[str, str], ...]:
    """Return path data by class, rounded to units, without shapes smaller than a unit."""
    paths: dict[str, str] = {}
    for name, parts in shapes.items():
        for shape in parts:
            placed = (project(corner) for corner in shape)
            corners = [at for at, _ in groupby(f"{x:.0f},{y:.0f}" for x, y in placed)]
            if len(corners) > 1:
                path = f"M{'L'.join(corners)}{'Z' if name in _CLOSED else ''}"
                paths[name] = paths.get(name, "") + path
    return tuple(paths.items())


def _shaded(
    rings: Sequence[Sequence[Corner]], drawn: Mapping[str, Any], project: Project
) -> tuple[tuple[int, str], ...]:
    paths: dict[int, list[str]] = {}
    for ring, shade in zip(rings, drawn["shade"], strict=True):
        if shade:
            places = [[round(part, 1) for part in project(corner)] for corner in ring]
            steps = (f"{c - a:.1f},{d - b:.1f}" for (a, b), (c, d) in pairwise(places))
            path = f"M{_at(places[0])}l{' '.join(steps)}z"
            paths.setdefault(round(shade / 255 * STEPS), []).append(path)
    return tuple((step, "".join(paths[step])) for step in sorted(paths))


def _border(rings: Sequence[Sequence[Corner]], project: Project) -> str:
    edges: Counter[tuple[tuple[float, float], ...]] = Counter()
    for ring in rings:
        corners = [(round(x, 4), round(y, 4)) for x, y in ring]
        for a, b in zip(corners, [*corners[1:], corners[0]], strict=True):
            edges[(a, b) if a < b else (b, a)] += 1
    return "".join(
        f"M{_at(project(a))}L{_at(project(b))}" for (a, b), times in edges.items() if times % 2
    )


def _names(
    points: Iterable[tuple[str, float, float]],
    cities: Iterable[tuple[str, float, float]],
    project: Project,
    height: int,
) -> Iterable[dict[str, Any]]:
    """Yield the user's points and the largest cities within the picture, with names that fit.

    A name that would overlap a different name is dropped. A city is shown only with its name, and
    at most one per 200 by 200 units."""
    boxes: list[tuple[float, float, float, float]] = []
    room = max(4, WIDTH * height // 40_000)
    for is_city, (name, *at) in chain(product([False], points), product([True], cities)):
        x, y = project(at)
        if not (0 < x < WIDTH and 0 < y < height):
            continue
        box = (x, y - _LINE, x + 7 + _LETTER * len(name), y)
        free = box[2] < WIDTH and not any(
            box[0] < right and left < box[2] and box[1] < low and high < box[3]
            for left, high, right, low in boxes
        )
        if is_city and not (free and room):
            continue
        room -= is_city
        if free:
            boxes.append(box)
        yield {"x": round(x, 1), "y": round(y, 1), "name": name if free else ""}


def _ruler(view: View) -> tuple[float, str]:
    middle = (view.south + view.north) / 2
    unit = KM_A_DEGREE * math.cos(math.radians(middle)) * (view.east - view.west) / WIDTH
    most = unit * WIDTH / 4
    power = 10 ** math.floor(math.log10(most))
    km = next(part * power for part in (5, 2, 1) if part * power <= most)
    return round(km / unit, 1), f"{km:g} km" if km >= 1 else f"{1000 * km:g} m"


def _legend(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the legend of the colors: the steps of the scale with texts, and the pale steps."""
    top, scale = data["top"], data["scale"]
    has_detected = any(drawn["detected"] for drawn in data["maps"])
    first, steps = math.ceil(scale["detected_from"] * STEPS), scale["undetected_steps"]
    return {
        "title": "Share of all answers, detected cells" if has_detected else NONE_DETECTED,
        "strip": list(range(first, STEPS + 1)) if has_detected else [],
        "ends": ("0", percent(float(f"{top / 4:.2g}")), percent(float(f"{top:.2g}"))),
        "pale": [round(STEPS * scale["undetected_to"] * i / steps) for i in range(steps + 1)],
    }


def _at(corner: Corner) -> str:
    return f"{corner[0]:.1f},{corner[1]:.1f}"
