"""The map of flows: the data that map.js draws, and the words of a flow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from decoder.grid_cells import cell_outline, unrolled
from decoder.output.base_layer import BaseLayer
from decoder.output.flows_geojson import drawn_share, line_width, top_drawn
from decoder.output.map_data import UNIT, counted, map_ground
from decoder.tables.format import days, percent
from rappor_core.metrics.flow import Flow

LARGEST_RING = 17.0  # pixels
SMALLEST_RING = 1.5
MOST_ROWS = 10  # of the table beside the map


def flow_map_data(found: Mapping[str, Any], flow: Flow) -> dict[str, Any]:
    """The data that map.js draws, as plain values: one map, whose marks are flows.

    Args:
        found: content of results.json, with flows.
        flow: the settings in it.
    """
    rows = found["flows"]
    outlines = [cell_outline(flow.grid, name) for name in flow.cells]
    window = days(found["first_day"], found["last_day"]) if found["first_day"] else "all days"
    return {
        "flows": True,
        **map_ground(outlines, BaseLayer(**found["base"]), partial(unrolled, flow.grid)),
        "names": list(flow.cells),
        "called": _called(rows, flow),
        "points": [],
        "areas": [],
        "maps": [_map(found, flow, window)],
        "first": window,
        "level": found["level"],
        "unit": UNIT,
        "top": top_drawn(rows),
    }


def _map(found: Mapping[str, Any], flow: Flow, window: str) -> dict[str, Any]:
    """What is drawn of the flows; shares are of people."""
    rows: Sequence[Mapping[str, Any]] = found["flows"]
    number = {name: place for place, name in enumerate(flow.cells)}
    drawn = [row for row in rows if {row["origin"], row["destination"]} <= number.keys()]

    def column(name: str) -> list[int]:
        return counted(np.array([row[name] for row in drawn], dtype=np.float64))

    return {
        "slot": f"{flow.origin.name} to {flow.destination.name}",
        "window": window,
        "reports": found["num_reports"],
        "detectable_share": found["detectable_share"],
        "ends": [[number[row["origin"]], number[row["destination"]]] for row in drawn],
        "size": _sizes(drawn),
        "share": counted(np.array([drawn_share(row) for row in drawn])),
        **{name: column(name) for name in ("low", "high", "estimate")},
        "detected": [place for place, row in enumerate(drawn) if row["detected"]],
        "titles": [flow_title(row, found["level"]) for row in drawn],
        "ways": [way_text(row) for row in drawn],
        "changed": {},
    }


def _sizes(rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """Pixels of each flow: the width of its line, or the radius of its ring, whose area is the
    share of who stay."""
    top = top_drawn(rows)
    stays = [drawn_share(row) for row in rows if row["origin"] == row["destination"]]
    largest = max(1e-9, *stays, 0.0)

    def size(row: Mapping[str, Any]) -> float:
        share = drawn_share(row)
        if row["origin"] == row["destination"]:
            return max(SMALLEST_RING, LARGEST_RING * math.sqrt(share / largest))
        return line_width(share, top) if row["detected"] else 1.0

    return [round(size(row), 2) for row in rows]


def _called(rows: Sequence[Mapping[str, Any]], flow: Flow) -> dict[int, str]:
    """What cells are called, by their index."""
    named = {row[side]: row[f"{side}_name"] for row in rows for side in ("origin", "destination")}
    return {place: named[name] for place, name in enumerate(flow.cells) if named.get(name)}


def largest_flows(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Flows of the table beside the map, as map.js orders them: those detected first, in
    each part those between two cells, then by share."""

    def key(row: Mapping[str, Any]) -> tuple[bool, bool, float]:
        size = row["estimate"] if row["detected"] else drawn_share(row)
        return not row["detected"], row["origin"] == row["destination"], -size

    return sorted(rows, key=key)[:MOST_ROWS]


def way_text(row: Mapping[str, Any]) -> str:
    """From where to where, in words."""
    start, end = (row[f"{side}_name"] or row[side] for side in ("origin", "destination"))
    return f"stay in {start}" if row["origin"] == row["destination"] else f"{start} → {end}"


def flow_title(row: Mapping[str, Any], level: float) -> str:
    """A flow in words: from where to where, its interval, whether it is detected."""
    start, end = (side_text(row, side) for side in ("origin", "destination"))
    way = f"stay in {start}" if row["origin"] == row["destination"] else f"{start} to {end}"
    far = "" if not row["km"] else f", {row['km']:.3g} km"
    known = f"{percent(row['low'])} to {percent(row['high'])} ({100 * level:g} %)"
    if row["detected"]:
        return f"{way}{far}: {percent(row['estimate'])} of people, {known}"
    return f"{way}{far}: not detected, {known}; guess {percent(row['flow_share'])}"


def side_text(row: Mapping[str, Any], side: str) -> str:
    """A side's name with its code, or the code alone."""
    name = row[f"{side}_name"]
    return f"{name} ({row[side]})" if name else str(row[side])
