"""density.html: maps in one page that needs no network: cells drawn on canvas, hover, a slider."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from decoder.advice import percent
from decoder.density import Density
from rappor_core.grid_codes import Point

_PLACES = 5  # decimals of a degree: a metre


def render_page(
    maps: Sequence[Density], points: Sequence[Point] = (), notes: Sequence[str] = ()
) -> str:
    """Make the page. maps: of one metric and level, any slots and windows. points: to be marked.

    notes: further sentences for the reader.
    """
    environment = Environment(
        loader=PackageLoader("decoder"), autoescape=True, undefined=StrictUndefined
    )
    environment.trim_blocks = environment.lstrip_blocks = True
    data = {
        "cells": _outlines(maps[0]),
        "names": list(maps[0].cells[:-1]),
        "points": [[round(lon, _PLACES), round(lat, _PLACES)] for lat, lon in points],
        "maps": [_map(one) for one in maps],
        "level": maps[0].options.level,
    }
    text = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return environment.get_template("density.html.j2").render(
        metric=maps[0].metric, data=text, promise=_promise(maps[0]), notes=[*notes, *_notes(maps)]
    )


def _outlines(one: Density) -> list[list[list[float]]]:
    grid = one.places.grid
    return [
        [[round(lon, _PLACES), round(lat, _PLACES)] for lat, lon in grid.outline(cell)]
        for cell in one.cells[:-1]
    ]


def _map(one: Density) -> dict[str, Any]:
    days = dict.fromkeys(str(day) for day in (one.first_day, one.last_day) if day)
    return {
        "slot": one.location.slot,
        "window": " to ".join(days),
        "reports": one.num_reports,
        "floor": _short(one.floor),
        "other": _short(float(one.shares[-1])),
        "share": [_short(float(x)) for x in one.shares[:-1]],
        "low": [_short(float(x)) for x in one.low[:-1]],
        "high": [_short(float(x)) for x in one.high[:-1]],
        "visible": [int(x) for x in one.visible[:-1]],
    }


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _promise(one: Density) -> str:
    metric = one.metric
    life, once = metric.lifetime_epsilon, metric.epsilon_one
    lasting = metric.params.epsilon_infinity
    by_cell = "" if math.isinf(lasting) else f", epsilon {lasting:.2f} for a cell, for life"
    return (
        f"Each device added its own noise before sending: epsilon {once:.2f} for a report{by_cell}"
        f", and at most {life:.2f} for everything that it ever sends about this metric. Whether "
        "and when a device's answers changed is hidden by the noise of single reports only."
    )


def _notes(maps: Sequence[Density]) -> list[str]:
    seen = dict.fromkeys(warning for one in maps for warning in one.warnings)
    return [*seen, *(visible_text(one) for one in maps[-1:])]


def visible_text(one: Density) -> str:
    """How much of a map can be seen, and what to do about it, in a sentence."""
    mass = float(one.shares[:-1][one.shares[:-1] >= one.floor].sum())
    text = (
        f"The smallest share found 8 times in 10 is {percent(one.floor)}; cells above it hold "
        f"{percent(mass)} of the map. A cell below is not distinguishable from zero by itself."
    )
    if mass < 0.5:
        text += " For finer detail use a coarser level, more reports, or a larger epsilon_one."
    return text
