"""density.html: maps in one page that needs no network: cells drawn on canvas, hover, a slider."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from numpy.typing import NDArray

from decoder.density import Density
from decoder.density_words import grid_text, promise_text, visible_text, window_text
from rappor_core.grid.box import Point

Floats = NDArray[np.float64]

_PLACES = 5  # decimals of a degree: a metre
_UNIT = 1e-7  # shares are whole numbers of it: a third of the text, written and read in a tenth


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
    one = maps[0]
    data = {
        "cells": [
            [[round(lon, _PLACES), round(lat, _PLACES)] for lat, lon in outline]
            for outline in one.places.outlines()
        ],
        "names": list(one.cells[:-1]),
        "points": [
            [round(one.places.grid.unrolled(lon), _PLACES), round(lat, _PLACES)]
            for lat, lon in points
        ],
        "maps": [_map(one) for one in maps],
        "level": one.options.level,
        "unit": _UNIT,
    }
    text = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return environment.get_template("density.html.j2").render(
        metric=one.metric,
        data=text,
        promise=promise_text(one),
        grid=grid_text(one),
        level=f"{100 * one.options.level:g} %",
        notes=[*notes, *_notes(maps)],
    )


def _map(one: Density) -> dict[str, Any]:
    return {
        "slot": one.slot_text,
        "window": window_text(one),
        "reports": one.num_reports,
        "floor": one.floor,
        "other": float(one.shares[-1]),
        "unlisted": one.unlisted,
        "share": _counted(one.shares),
        "low": _counted(one.low),
        "high": _counted(one.high),
        "visible": np.flatnonzero(one.visible[:-1]).tolist(),
    }


def _counted(shares: Floats) -> list[int]:
    """Shares of the cells, without `other`, in whole units."""
    counts: list[int] = np.rint(shares[:-1] / _UNIT).astype(np.int64).tolist()
    return counts


def _notes(maps: Sequence[Density]) -> list[str]:
    seen = dict.fromkeys(warning for one in maps for warning in one.warnings)
    return [*seen, *(visible_text(one) for one in maps[-1:])]
