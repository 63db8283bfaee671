"""The view of flows, from results.json: for files and the service."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from decoder.output.basemap import bundled_source
from decoder.output.charts import forest
from decoder.output.flows_geojson import drawn_share
from decoder.output.flows_map import (
    flow_map_data,
    flow_title,
    largest_flows,
    side_text,
    way_text,
)
from decoder.output.joint_view import MOST_SIDE, Heat, HeatSquare
from decoder.output.map_data import map_json
from decoder.output.map_picture import map_picture
from decoder.tables.format import percent
from decoder.tables.paging import TableQuery, page_of
from rappor_core.grid.box import RESERVED
from rappor_core.metrics.flow import QUESTIONS, Flow

LEAST_TEXT = 0.0005  # a share below that is no number in the matrix


def flows_view(found: dict[str, Any], query: TableQuery) -> dict[str, Any]:
    """The variables of `result_flow.html.j2`.

    Args:
        found: content of results.json.
        query: of the table of flows.
    """
    flow = Flow.from_dict(found["flow"])
    named = [
        row | {"way": f"{side_text(row, 'origin')} > {side_text(row, 'destination')}"}
        for row in found["flows"]
    ]
    return {
        **_map(found, flow),
        "found": found,
        "moves": bool(flow.lag),
        "slots": (flow.origin.name, flow.destination.name),
        "lag": flow.lag,
        "heat": zone_heat(found["zones"], found["level"]),
        "questions": _questions(flow),
        "bands": forest([(_plain(row["band"]), row["estimate"], row["low"], row["high"], None)
                         for row in found["bands"]]),
        "table": page_of(named, "way", query),
        "level": f"{100 * found['level']:g} %",
        "source": bundled_source(),
    }  # fmt: skip


def _map(found: Mapping[str, Any], flow: Flow) -> dict[str, Any]:
    """The map: its picture, None without flows, what its script draws, and its table."""
    if not found["flows"]:
        return {"picture": None}
    data = flow_map_data(found, flow)
    return {
        "picture": map_picture(data),
        "data": map_json(data),
        "data_url": None,
        "window": data["first"],
        "largest": [{**row, "way": way_text(row)} for row in largest_flows(found["flows"])],
    }


def zone_heat(rows: Sequence[Mapping[str, Any]], level: float) -> Heat | None:
    """The matrix of the largest zones as a table that is coloured, in per cent of people.

    rows: pairs of zones, as zones.csv has them; None without any.
    """
    if not rows:
        return None
    at = {(row["origin"], row["destination"]): row for row in rows}
    sizes: dict[str, float] = {}
    for (origin, destination), row in at.items():
        for side in {origin, destination}:
            sizes[side] = sizes.get(side, 0.0) + drawn_share(row)
    kept = sorted(sizes, key=lambda side: (side not in RESERVED, -sizes[side]))[:MOST_SIDE]
    sides = [side for side in sizes if side in kept]
    top = max(drawn_share(row) for row in rows) or 1.0
    numbers = {side: f"{number}" for number, side in enumerate(sizes, start=1)}
    made = tuple(
        (_zone_name(at[origin, origin], numbers[origin]),
         tuple(_square(at[origin, destination], top, level) for destination in sides))
        for origin in sides
    )  # fmt: skip
    columns = tuple(_plain(side) if side in RESERVED else numbers[side] for side in sides)
    return Heat(made, columns, len(sides) < len(sizes))


def _questions(flow: Flow) -> dict[str, str]:
    """What each question asks, for people."""
    asked = (flow.origin.name, flow.destination.name, "the distance", "the pair of zones",
             "the pair of cells")  # fmt: skip
    return dict(zip(QUESTIONS, asked, strict=True))


def _plain(name: str) -> str:
    """The name of a reserved value, or of a band with one, for people."""
    return name.replace("_", " ")


def _square(row: Mapping[str, Any], top: float, level: float) -> HeatSquare:
    share = drawn_share(row)
    strength = min(9, int(10 * math.sqrt(share / top)))
    text = percent(share).removesuffix(" %") if share >= LEAST_TEXT else "·"
    return HeatSquare(strength, row["detected"], text, flow_title(row, level))


def _zone_name(row: Mapping[str, Any], number: str) -> str:
    name = str(row["origin_name"] or row["origin"])
    return _plain(name) if row["origin"] in RESERVED else f"{number} {name}"
