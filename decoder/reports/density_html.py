"""density.html: maps in one page that needs no network: cells drawn on canvas, hover, a slider."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from decoder.density.maps import Density
from decoder.reports.base_layer import BaseLayer, place_name
from decoder.reports.basemap import View, bundled_source, surroundings
from decoder.reports.density_text import (
    cell_km,
    grid_text,
    grouped_warnings,
    promise_text,
    source_text,
    visible_text,
    window_text,
)
from decoder.reports.jinja import page_template
from decoder.reports.palette import (
    TOLD_FROM,
    UNTOLD_STEPS,
    UNTOLD_TO,
    drawn_shares,
    positions,
    top_share,
)
from decoder.typing import Floats
from rappor_core.grid.box import Point

BUSIEST = 10  # cells of the page's table
_PLACES = 5  # decimals of a degree: a metre
_UNIT = 1e-7  # shares are whole numbers of it: a third of the text, written and read in a tenth
_AROUND = 5.0  # how far the page's land and water go: a map's box fills a fifth of them or more


def render_page(
    maps: Sequence[Density],
    points: Sequence[Point] = (),
    notes: Sequence[str] = (),
    base: BaseLayer | None = None,
) -> str:
    """Make the page. maps: of one metric and level, any slots and windows. points: to be marked.

    notes: further sentences for the reader.  base: streets, districts or stations of the user's.
    """
    context = page_context(maps, points, notes, base)
    return page_template("density.html.j2").render(**context, data_url=None)


def page_context(
    maps: Sequence[Density],
    points: Sequence[Point] = (),
    notes: Sequence[str] = (),
    base: BaseLayer | None = None,
) -> dict[str, Any]:
    """What `map_view.html.j2` and its page are filled with, but for `data_url`.

    `data` is the JSON that map.js draws, safe within a page. Arguments as in `render_page`.
    """
    one = maps[0]
    data = _data(maps, points, base or BaseLayer())
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return {
        "metric": one.metric,
        "data": text.replace("<", "\\u003c"),
        "shown": _shown(maps[first_view(maps)], data["called"]),
        "promise": promise_text(one),
        "grid": grid_text(one),
        "level": f"{100 * one.options.level:g} %",
        "notes": [*notes, *grouped_warnings(maps), visible_text(maps[first_view(maps)])],
        "source": bundled_source(),
    }


def _shown(one: Density, called: dict[int, str]) -> dict[str, Any]:
    """The busiest cells of a map, those that are told apart from zero first."""
    shares, visible = one.shares[:-1], one.visible[:-1]
    inside = max(1 - float(one.shares[-1]), 1e-9)
    rows = [
        {
            "name": one.cells[i],
            "called": called.get(i, ""),
            "visible": bool(visible[i]),
            "share": float(shares[i]),
            "in_box": float(shares[i]) / inside,
            "low": float(one.low[i]),
            "high": float(one.high[i]),
        }
        for i in np.lexsort((-shares, ~visible))[:BUSIEST].tolist()
    ]
    return {"slot": one.slot_text, "window": window_text(one), "rows": rows}


def first_view(maps: Sequence[Density]) -> int:
    """Which map is shown first: the last one with half as many answers in the box as the most.

    The last window is often one that most devices have not answered for yet.
    """
    inside = [one.num_reports * float(1 - one.shares[-1]) for one in maps]
    return max(i for i, number in enumerate(inside) if 2 * number >= max(inside))


def _data(maps: Sequence[Density], points: Sequence[Point], base: BaseLayer) -> dict[str, Any]:
    one = maps[0]
    grid, outlines = one.places.grid, one.places.outlines()
    cells = [
        [[round(lon, _PLACES), round(lat, _PLACES)] for lat, lon in outline] for outline in outlines
    ]
    corners = np.array([corner for outline in cells for corner in outline]).reshape(-1, 2)
    (west, south), (east, north) = corners.min(axis=0), corners.max(axis=0)
    own = base.shifted(grid.unrolled)
    top = top_share([drawn_shares(each) for each in maps])
    return {
        "cells": cells,
        "names": list(one.cells[:-1]),
        "points": [
            [round(grid.unrolled(lon), _PLACES), round(lat, _PLACES)] for lat, lon in points
        ],
        "maps": [_map(each, top) for each in maps],
        "called": _called(maps, base),
        "first": window_text(maps[first_view(maps)]),
        "level": one.options.level,
        "unit": _UNIT,
        "top": top,
        "scale": {"told_from": TOLD_FROM, "untold_to": UNTOLD_TO, "untold_steps": UNTOLD_STEPS},
        "around": surroundings(View(west, south, east, north).wider(_AROUND)),
        "base": {"lines": own.lines, "areas": own.areas, "points": own.points},
    }


def _map(one: Density, top: float) -> dict[str, Any]:
    return {
        "slot": one.slot_text,
        "window": window_text(one),
        "reports": one.num_reports,
        "floor": one.floor,
        "other": float(one.shares[-1]),
        "unlisted": one.unlisted,
        "share": _counted(one.shares[:-1]),
        "low": _counted(one.low[:-1]),
        "high": _counted(one.high[:-1]),
        "estimate": _counted(one.estimate[:-1]),
        "shade": np.rint(255 * positions(one, top)).astype(int).tolist(),
        "visible": np.flatnonzero(one.visible[:-1]).tolist(),
        "source": source_text(one),
        "changed": _changed(one),
    }


def _changed(one: Density) -> dict[int, list[float]]:
    """Cells that differ from the other windows of a series: change, and its interval's ends."""
    if one.changes is None:
        return {}
    half = -float(ndtri((1 - one.options.level) / 2)) * one.changes.std_error
    change = one.changes.difference
    edges = np.stack([change, change - half, change + half], axis=1).round(6)
    return {int(i): edges[i].tolist() for i in np.flatnonzero(one.changes.detected[:-1])}


def _called(maps: Sequence[Density], base: BaseLayer) -> dict[int, str]:
    """What the busiest cells of any map are called, by their index."""
    one = maps[0]
    busiest = {int(i) for each in maps for i in np.argsort(-each.shares[:-1])[:BUSIEST]}
    centre, wide = one.places.grid.centre, cell_km(one)
    named = {i: place_name(centre(one.cells[i]), base, wide) for i in sorted(busiest)}
    return {i: name for i, name in named.items() if name}


def _counted(shares: Floats) -> list[int]:
    """Shares in whole units."""
    counts: list[int] = np.rint(shares / _UNIT).astype(np.int64).tolist()
    return counts
