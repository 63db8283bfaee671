"""Files of named areas: areas.csv and areas.geojson, a row an area, slot and window; and the
layers of density.gpkg."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv as arrow_csv

from decoder.density.areas import AreaShares
from decoder.density.maps import Density
from decoder.files import replacing
from decoder.output.density_csv import cell_geometries, density_table, six_digits
from decoder.output.geo_files import Layer
from rappor_core.text import safe_cell

AREA_FILES = ("areas.csv", "areas.geojson")
_NUMBERS = ("map_share", "estimate", "std_error", "low", "high")


def write_areas(
    maps: Sequence[Density], shares: Sequence[AreaShares], folder: Path
) -> tuple[str, ...]:
    """Write the shares of areas in each map; return the names of the files.

    The GeoJSON has the areas as they were given, once for each slot and window; a name that a
    spreadsheet would compute has an apostrophe before it in the CSV.
    """
    rows = _all_rows(maps, shares)
    cells = [{**row, "name": safe_cell(row["name"])} for row in rows]
    with replacing(folder / AREA_FILES[0]) as part, part.open("wb") as file:
        arrow_csv.write_csv(pa.Table.from_pylist(cells), file)
    shapes = [shape for found in shares for shape in found.areas.geometries]
    features = (
        json.dumps({"type": "Feature", "geometry": shape, "properties": row}, default=str)
        for shape, row in zip(shapes, rows, strict=True)
    )
    text = ",\n".join(features)
    with replacing(folder / AREA_FILES[1]) as part:
        part.write_text(
            f'{{"type":"FeatureCollection","features":[\n{text}\n]}}\n', encoding="utf-8"
        )
    return AREA_FILES


def map_layers(maps: Sequence[Density], shares: Sequence[AreaShares]) -> list[Layer]:
    """Layers `cells` and, where there are any, `areas` of a GeoPackage: all slots and windows."""
    placed = [(row, shape) for row, shape in enumerate(cell_geometries(maps)) if shape is not None]
    table = density_table(maps).take([row for row, _ in placed])
    layers = [Layer("cells", table, [shape for _, shape in placed])]
    if shares:
        shapes = [shape for found in shares for shape in found.areas.geometries]
        layers.append(Layer("areas", pa.Table.from_pylist(_all_rows(maps, shares)), shapes))
    return layers


def _all_rows(maps: Sequence[Density], shares: Sequence[AreaShares]) -> list[dict[str, Any]]:
    return [row for one, found in zip(maps, shares, strict=True) for row in _rows(one, found)]


def _rows(one: Density, found: AreaShares) -> Iterator[dict[str, Any]]:
    """Of each area; shares are of all answers."""
    areas = found.areas
    columns = [six_digits(getattr(found, name)) for name in _NUMBERS]
    cells = areas.weights.sum(axis=1)
    for i, name in enumerate(areas.names):
        yield {
            "name": name,
            "metric": one.metric.base_name,
            "slot": one.location.slot,
            "first_day": one.first_day,
            "last_day": one.last_day,
            "cells": round(float(cells[i]), 4),
            "covered": round(float(areas.covered[i]), 6),
            **{number: column[i] for number, column in zip(_NUMBERS, columns, strict=True)},
            "detected": bool(found.detected[i]),
            "reports": one.num_reports,
        }
