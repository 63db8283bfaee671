"""Files of flows: tables, lines, results.json and flows.html.

Nothing in them depends on the clock or the machine: the same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from decoder.files import write_files, write_json
from decoder.flows.tables import FlowDecoding
from decoder.output.flows_geojson import flow_line, flow_lines, placed_flows
from decoder.output.flows_html import render_flows
from decoder.output.flows_tables import (
    Columns,
    FlowPlaces,
    band_columns,
    cell_columns,
    flow_columns,
    zone_columns,
)
from decoder.output.geo_files import Layer, write_geopackage, write_geoparquet
from decoder.progress import Progress, silent

MARK = "results.json"
FILES = ("flows.csv", "flows.parquet", "zones.csv", "cells.csv", "bands.csv", "flows.geojson",
         "zones.geojson", "flows.gpkg", MARK, "flows.html")  # fmt: skip
_TEXTS = {"origin", "destination", "origin_name", "destination_name", "note", "cell", "name",
          "zone", "band"}  # fmt: skip


def write_flows(
    found: FlowDecoding,
    content: Mapping[str, Any],
    places: FlowPlaces,
    folder: str | Path,
    progress: Progress = silent,
) -> tuple[Path, ...]:
    """Write all files into a folder, made if needed, all or none; return their paths.

    Args:
        found: the decoding.
        content: of results.json, by `flows_content`: the flows that are drawn.
        places: names and centres.
        folder: where to.
        progress: called with (stage, done, total).

    Raises:
        OutputError: a file cannot be written.
    """
    flows = arrow_table(_all_flows(found, places))
    files: dict[str, Callable[[Path], object]] = {
        "flows.csv": partial(_csv, flows),
        "flows.parquet": lambda path: write_geoparquet(path, flows, _all_lines(flows, places)),
        "zones.csv": partial(_csv, arrow_table(_unless_moves(found, zone_columns(found, places)))),
        "cells.csv": partial(_csv, arrow_table(_unless_moves(found, cell_columns(found, places)))),
        "bands.csv": partial(_csv, arrow_table(band_columns(found))),
        "flows.geojson": partial(_lines, content, "flows", _cell_centres(places)),
        "zones.geojson": partial(_lines, content, "zones", _zone_centres(places)),
        "flows.gpkg": partial(_geopackage, content, places, str(found.last_day)),
        MARK: partial(write_json, content),
        "flows.html": lambda path: path.write_text(render_flows(content), encoding="utf-8"),
    }
    return write_files(folder, files, progress)


def arrow_table(columns: Columns) -> Any:
    """Columns as an Arrow table: texts, truth values and numbers, also where there is no row."""
    kinds = {name: pa.string() for name in _TEXTS} | {"detected": pa.bool_()}
    return pa.table(
        {name: pa.array(values, kinds.get(name, pa.float64())) for name, values in columns.items()}
    )


def _all_flows(found: FlowDecoding, places: FlowPlaces) -> Columns:
    return _unless_moves(found, flow_columns(found, places, np.arange(found.flow.num_sides**2)))


def _unless_moves(found: FlowDecoding, columns: Columns) -> Columns:
    """The columns; without rows for moves, whose matrix is not readable."""
    return {name: [] for name in columns} if found.flow.lag else columns


def _csv(table: Any, path: Path) -> None:
    with path.open("wb") as file:
        arrow_csv.write_csv(table, file)


def _lines(content: Mapping[str, Any], name: str, centres: Any, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(flow_lines(content[name], centres, content["metric"]))


def _all_lines(flows: Any, places: FlowPlaces) -> list[dict[str, Any] | None]:
    """The line of each pair; None where a side has no place."""
    centres = _cell_centres(places)
    ends = zip(flows["origin"].to_pylist(), flows["destination"].to_pylist(), strict=True)
    return [
        flow_line(centres[start], centres[end]) if {start, end} <= centres.keys() else None
        for start, end in ends
    ]


def _geopackage(content: Mapping[str, Any], places: FlowPlaces, day: str, path: Path) -> None:
    """The flows and zones of the GeoJSON as two layers."""
    layers = []
    for name, centres in (("flows", _cell_centres(places)), ("zones", _zone_centres(places))):
        placed = list(placed_flows(content[name], centres, content["metric"]))
        if placed:
            table = pa.Table.from_pylist([row for _, row in placed])
            layers.append(Layer(name, table, [shape for shape, _ in placed]))
    write_geopackage(path, layers, day)


def _cell_centres(places: FlowPlaces) -> dict[str, Any]:
    return dict(zip(places.flow.cells, places.centres, strict=True))


def _zone_centres(places: FlowPlaces) -> dict[str, Any]:
    return dict(zip(places.flow.zones, places.zone_centres, strict=True))
