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
from pyarrow import parquet

from decoder.files import write_files, write_json
from decoder.flows.tables import FlowDecoding
from decoder.output.flows_geojson import flow_lines
from decoder.output.flows_html import render_flows
from decoder.output.flows_tables import (
    Columns,
    FlowPlaces,
    band_columns,
    cell_columns,
    flow_columns,
    zone_columns,
)
from decoder.progress import Progress, silent

MARK = "results.json"
FILES = ("flows.csv", "flows.parquet", "zones.csv", "cells.csv", "bands.csv", "flows.geojson",
         "zones.geojson", MARK, "flows.html")  # fmt: skip
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
        "flows.parquet": partial(parquet.write_table, flows),
        "zones.csv": partial(_csv, arrow_table(_unless_moves(found, zone_columns(found, places)))),
        "cells.csv": partial(_csv, arrow_table(_unless_moves(found, cell_columns(found, places)))),
        "bands.csv": partial(_csv, arrow_table(band_columns(found))),
        "flows.geojson": partial(_lines, content, "flows", _cell_centres(places)),
        "zones.geojson": partial(_lines, content, "zones", _zone_centres(places)),
        MARK: partial(write_json, content),
        "flows.html": lambda path: path.write_text(render_flows(content), encoding="utf-8"),
    }
    return write_files(folder, files, progress)


def arrow_table(columns: Columns) -> Any:
    """Columns as an Arrow table: texts, truth values and numbers, also where there is no row."""
    kinds = {name: pa.string() for name in _TEXTS} | {"told": pa.bool_()}
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


def _cell_centres(places: FlowPlaces) -> dict[str, Any]:
    return dict(zip(places.flow.cells, places.centres, strict=True))


def _zone_centres(places: FlowPlaces) -> dict[str, Any]:
    return dict(zip(places.flow.zones, places.zone_centres, strict=True))
