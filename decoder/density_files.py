"""Files of maps: density.csv, density.parquet, density.geojson. The same input, the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from decoder.density import Density
from decoder.errors import DecodeError
from rappor_core.grid import OTHER, PAIR_SEPARATOR, Grid

NOT_APART = "not distinguishable from zero"
_PLACES = 6  # decimals of a degree: a tenth of a metre


def write_density_files(maps: Sequence[Density], folder: Path) -> tuple[Path, ...]:
    """Write the table twice (CSV, Parquet), and the cells as GeoJSON if they are not pairs."""
    if not maps:
        raise DecodeError("there is no map to write")
    folder.mkdir(parents=True, exist_ok=True)
    table = density_table(maps)
    csv_path, parquet_path = folder / "density.csv", folder / "density.parquet"
    with csv_path.open("wb") as file:
        arrow_csv.write_csv(table, file)
    parquet.write_table(table, parquet_path)
    if is_of_pairs(maps[0]):
        return csv_path, parquet_path
    geojson_path = folder / "density.geojson"
    geojson_path.write_text(
        json.dumps(density_geojson(maps), allow_nan=False, separators=(",", ":")) + "\n",
        encoding="utf-8",
    )
    return csv_path, parquet_path, geojson_path


def density_table(maps: Sequence[Density]) -> Any:
    """One row a map and cell: what the docs call the density table. Shares are in [0, 1]."""
    columns: dict[str, list[Any]] = {}
    for one in maps:
        for row in _rows(one):
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
    return pa.table(columns)


def _rows(one: Density) -> Iterator[dict[str, Any]]:
    location = one.metric.location
    assert location is not None  # noqa: S101 (`density` has checked it)
    for i, cell in enumerate(one.cells):
        latitude, longitude = _centre(location.grid, cell)
        visible = bool(one.visible[i])
        yield {
            "metric": one.metric.base_name,
            "slot": location.slot,
            "first_day": one.first_day,
            "last_day": one.last_day,
            "cell": cell,
            "latitude": latitude,
            "longitude": longitude,
            "map_share": float(one.shares[i]),
            "estimate": float(one.estimate[i]),
            "std_error": float(one.std_error[i]),
            "low": float(one.low[i]),
            "high": float(one.high[i]),
            "visible": visible,
            "note": "" if visible else NOT_APART,
            "floor": one.floor,
            "reports": one.num_reports,
        }


def density_geojson(maps: Sequence[Density]) -> dict[str, Any]:
    """One feature a map and cell; `other` has no place, and is in the tables only."""
    features = []
    for one in maps:
        for row in _rows(one):
            if row["cell"] == OTHER:
                continue
            for key in ("first_day", "last_day"):
                row[key] = row[key] and row[key].isoformat()
            location = one.metric.location
            assert location is not None  # noqa: S101 (as above)
            geometry = {"type": "Polygon", "coordinates": [_ring(location.grid, row["cell"])]}
            features.append({"type": "Feature", "geometry": geometry, "properties": row})
    return {"type": "FeatureCollection", "features": features}


def is_of_pairs(one: Density) -> bool:
    """Whether the values are trips from cell to cell."""
    return one.metric.location is not None and one.metric.location.pairs


def _ring(grid: Grid, cell: str) -> list[list[float]]:
    """The outline as GeoJSON wants it: longitude first, counter-clockwise, closed."""
    corners = [[round(lon, _PLACES), round(lat, _PLACES)] for lat, lon in grid.outline(cell)]
    return [*corners, corners[0]]


def _centre(grid: Grid, cell: str) -> tuple[float | None, float | None]:
    if cell == OTHER or PAIR_SEPARATOR in cell:
        return None, None
    latitude, longitude = grid.centre(cell)
    return round(latitude, _PLACES), round(longitude, _PLACES)
