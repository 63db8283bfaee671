"""The view of flows from results.json: page, map and lines, for files and the service."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from decoder.grid_cells import cell_outline, unrolled
from decoder.output.basemap import UNIT, BaseLayer, bundled_source, counted, map_ground, map_json
from decoder.output.charts import MAX_SIDE, forest, heat_square
from decoder.output.density_csv import DECIMALS
from decoder.tables.format import days, percent
from decoder.tables.paging import TableQuery, page_of
from rappor_core.grid.box import RESERVED, Point
from rappor_core.metrics.flow import QUESTIONS, Flow

MIN_TEXT = 0.0005  # smaller shares have no number in the matrix
THINNEST, WIDEST = 1.0, 12.0  # pixels
MAX_RING = 17.0  # pixels
MIN_RING = 1.5
_MIN_WIDEST = 1e-9  # minimum share of the widest line, in case no one moves

Row = Mapping[str, Any]


def flows_view(content: dict[str, Any], query: TableQuery) -> dict[str, Any]:
    """Return the variables of `result_flow.html.j2` from results.json and the table's query."""
    flow = Flow.from_dict(content["flow"])
    named = [
        row | {"way": f"{_side_text(row, 'origin')} > {_side_text(row, 'destination')}"}
        for row in content["flows"]
    ]
    return {
        "data": map_json(_map_data(content, flow)) if content["flows"] else None,
        "data_url": None,
        "found": content,
        "moves": bool(flow.lag),
        "slots": (flow.origin.name, flow.destination.name),
        "lag": flow.lag,
        "heat": _zone_heat(content["zones"], content["level"]),
        "questions": dict(zip(QUESTIONS, (flow.origin.name, flow.destination.name, "distance",
                                          "pair of zones", "pair of cells"), strict=True)),
        "bands": forest([(_plain(row["band"]), row["estimate"], row["low"], row["high"], None)
                         for row in content["bands"]]),
        "table": page_of(named, "way", query),
        "level": f"{100 * content['level']:g} %",
        "source": bundled_source(),
    }  # fmt: skip


def _zone_heat(rows: Sequence[Row], level: float) -> dict[str, Any] | None:
    """Return the matrix of the largest zones, from rows of zones.csv, as a colored table."""
    if not rows:
        return None
    at = {(row["origin"], row["destination"]): row for row in rows}
    sizes: dict[str, float] = {}
    for (origin, destination), row in at.items():
        for side in {origin, destination}:
            sizes[side] = sizes.get(side, 0.0) + _drawn_share(row)
    largest = sorted(sizes, key=lambda side: (side not in RESERVED, -sizes[side]))[:MAX_SIDE]
    sides = [side for side in sizes if side in largest]
    top = max(_drawn_share(row) for row in rows) or 1.0
    numbers = {side: f"{number}" for number, side in enumerate(sizes, start=1)}

    def named(side: str) -> str:
        name = str(at[side, side]["origin_name"] or side)
        return _plain(name) if side in RESERVED else f"{numbers[side]} {name}"

    def square(row: Row) -> dict[str, Any]:
        share = _drawn_share(row)
        text = percent(share).removesuffix(" %") if share >= MIN_TEXT else "·"
        return heat_square(share, top, text, _title(row, level), detected=row["detected"])

    grid = tuple((named(side), tuple(square(at[side, other]) for other in sides)) for side in sides)
    columns = tuple(_plain(side) if side in RESERVED else numbers[side] for side in sides)
    return {"rows": grid, "columns": columns, "hidden": len(sides) < len(sizes)}


def _plain(name: str) -> str:
    return name.replace("_", " ")


def _drawn_share(row: Row) -> float:
    """Return the drawn share: `flow_share`, moved into the interval of a detected flow."""
    share = row["flow_share"]
    if row["detected"]:
        share = min(max(share, row["low"]), row["high"])
    return float(max(share, 0.0))


def _largest(rows: Sequence[Row], *, own: bool) -> float:
    shares = (_drawn_share(row) for row in rows if (row["origin"] == row["destination"]) == own)
    return max(_MIN_WIDEST, *shares, 0.0)


def placed_flows(
    rows: Sequence[Row], centers: Mapping[str, Point], metric: str
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the GeoJSON geometry and properties of each flow whose sides both have a center.

    Args:
        rows: Flows or zone pairs.
        centers: The latitude and longitude of each side by its name.
        metric: The name of the metric, a property of each feature.
    """
    placed = [row for row in rows if {row["origin"], row["destination"]} <= centers.keys()]
    top = _largest(placed, own=False)
    for row in placed:
        shape = flow_line(centers[row["origin"]], centers[row["destination"]])
        width = THINNEST + (WIDEST - THINNEST) * min(_drawn_share(row) / top, 1.0)
        yield shape, {"metric": metric, **row, "width": round(width, 2)}


def flow_line(start: Point, end: Point) -> dict[str, Any]:
    """Return the shortest line as GeoJSON, split at 180 degrees; a Point if the ends are equal."""

    def position(longitude: float, latitude: float) -> list[float]:
        return [round(longitude, DECIMALS), round(latitude, DECIMALS)]

    (south, west), (north, east) = start, end
    if start == end:
        return {"type": "Point", "coordinates": position(west, south)}
    turn = 360 * round((west - east) / 360)
    east += turn
    if not turn:
        line = [position(west, south), position(east, north)]
        return {"type": "LineString", "coordinates": line}
    edge = 180.0 if east > west else -180.0
    across = south + (edge - west) / (east - west) * (north - south)
    parts = [
        [position(west, south), position(edge, across)],
        [position(-edge, across), position(east - turn, north)],
    ]
    return {"type": "MultiLineString", "coordinates": parts}


def _map_data(content: Row, flow: Flow) -> dict[str, Any]:
    """Return the data that map.js draws: one map with flows as marks and shares of people."""
    rows: Sequence[Row] = content["flows"]
    called = {row[side]: row[f"{side}_name"] for row in rows for side in ("origin", "destination")}
    number = {name: place for place, name in enumerate(flow.cells)}
    outlines = [cell_outline(flow.grid, name) for name in flow.cells]
    window = days(content["first_day"], content["last_day"]) if content["first_day"] else "all days"
    drawn = [row for row in rows if {row["origin"], row["destination"]} <= number.keys()]
    columns = {"share": [_drawn_share(row) for row in drawn]}
    columns |= {name: [row[name] for row in drawn] for name in ("low", "high", "estimate")}
    drawn_map = {
        "slot": f"{flow.origin.name} to {flow.destination.name}",
        "window": window,
        "reports": content["num_reports"],
        "detectable_share": content["detectable_share"],
        "ends": [[number[row["origin"]], number[row["destination"]]] for row in drawn],
        "size": _sizes(drawn),
        **{name: counted(np.array(column, dtype=np.float64)) for name, column in columns.items()},
        "detected": [place for place, row in enumerate(drawn) if row["detected"]],
        "titles": [_title(row, content["level"]) for row in drawn],
        "ways": [_way_text(row) for row in drawn],
        "changed": {},
    }
    return {
        "flows": True,
        **map_ground(outlines, BaseLayer(**content["base"]), partial(unrolled, flow.grid)),
        "names": list(flow.cells),
        "called": {i: called[name] for i, name in enumerate(flow.cells) if called.get(name)},
        "points": [],
        "areas": [],
        "maps": [drawn_map],
        "first": window,
        "level": content["level"],
        "unit": UNIT,
        "top": _largest(rows, own=False),
    }


def _sizes(rows: Sequence[Row]) -> list[float]:
    """Return the pixels of each flow: a line's width, or a ring's radius for those who stay."""
    top, stays = _largest(rows, own=False), _largest(rows, own=True)

    def size(row: Row) -> float:
        share = _drawn_share(row)
        if row["origin"] == row["destination"]:
            return max(MIN_RING, MAX_RING * math.sqrt(share / stays))
        part = min(share / top, 1.0) if row["detected"] else 0.0
        return THINNEST + (WIDEST - THINNEST) * part

    return [round(size(row), 2) for row in rows]


def _way_text(row: Row) -> str:
    start, end = (row[f"{side}_name"] or row[side] for side in ("origin", "destination"))
    return f"stay in {start}" if row["origin"] == row["destination"] else f"{start} → {end}"


def _title(row: Row, level: float) -> str:
    start, end = (_side_text(row, side) for side in ("origin", "destination"))
    way = f"stay in {start}" if row["origin"] == row["destination"] else f"{start} to {end}"
    far = "" if not row["km"] else f", {row['km']:.3g} km"
    range_text = f"{percent(row['low'])} to {percent(row['high'])} ({100 * level:g} %)"
    if row["detected"]:
        return f"{way}{far}: {percent(row['estimate'])} of people, {range_text}"
    return f"{way}{far}: not detected, {range_text}; best fit {percent(row['flow_share'])}"


def _side_text(row: Row, side: str) -> str:
    name = row[f"{side}_name"]
    return f"{name} ({row[side]})" if name else str(row[side])
