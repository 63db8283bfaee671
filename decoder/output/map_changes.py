"""Maps of change: each window of a slot against the slot's first window, as map.js draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from decoder.comparison.differences import Differences
from decoder.density.maps import Density
from decoder.output.density_html import counted
from decoder.output.density_text import window_text
from decoder.output.palette import change_positions
from rappor_core.reserved import RESERVED

MOST_ROWS = 10  # of the table that stands before the script runs


def map_changes(maps: Sequence[Density]) -> dict[str, Any] | None:
    """What map.js draws in place of the maps, beside `density_html.map_data` of the same maps.

    A map for each slot and window but the first of a slot; None where no slot has two windows.
    """
    first = {one.slot_text: one for one in reversed(maps)}
    pairs = [
        (first[one.slot_text], one, one.since_first) for one in maps if one.since_first is not None
    ]
    if not pairs:
        return None
    sizes = [np.abs(found.difference[: one.num_cells]).max() for _, one, found in pairs]
    top = float(max(sizes)) or 1e-9
    return {
        "difference": True,
        "reference": window_text(pairs[-1][0]),
        "first": window_text(pairs[-1][1]),
        "top": top,
        "maps": [_map(old, new, found, top) for old, new, found in pairs],
    }


def _map(old: Density, new: Density, found: Differences, top: float) -> dict[str, Any]:
    """What is drawn of a change between two windows; `no_data` only where it is declared."""
    size = new.num_cells
    change, told = found.difference[:size], found.detected[:size]
    shade = change_positions(change, told, top)
    return {
        "slot": new.slot_text,
        "window": window_text(new),
        "reports": new.num_reports,
        "before": old.num_reports,
        "floor": 0.0,
        **dict(zip(RESERVED, found.difference[size:].tolist(), strict=False)),
        "unlisted": 0.0,
        "share": counted(change),
        "low": counted(found.low[:size]),
        "high": counted(found.high[:size]),
        "estimate": counted(change),
        "shade": np.rint(255 * shade).astype(int).tolist(),
        "visible": np.flatnonzero(told).tolist(),
        "source": "",
        "changed": {},
    }


def changes_view(data: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of the template before the script runs: the largest changes of the last map.

    data: map.json, with what `map_changes` made in place of its maps.
    """
    one = next(each for each in data["maps"][::-1] if each["window"] == data["first"])
    told, unit = set(one["visible"]), data["unit"]
    order = sorted(range(len(one["share"])), key=lambda i: (i not in told, -abs(one["share"][i])))
    rows = [
        {
            "name": data["names"][i],
            "called": data["called"].get(str(i), ""),
            "visible": i in told,
            "change": one["share"][i] * unit,
            "low": one["low"][i] * unit,
            "high": one["high"][i] * unit,
        }
        for i in order[:MOST_ROWS]
    ]
    counts = [{"slot": each["slot"], "window": each["window"], "changed": len(each["visible"])}
              for each in data["maps"]]  # fmt: skip
    return {
        "shown": {"slot": one["slot"], "window": one["window"], "rows": rows},
        "counts": counts,
        "num_cells": len(data["cells"]),
        "reference": data["reference"],
        "texts": data["texts"],
    }
