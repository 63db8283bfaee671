"""Files of maps: density.csv, density.parquet, density.geojson. The same input, the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from decoder.density import Density
from decoder.errors import DecodeError
from decoder.geojson import DECIMALS, geometry

Floats = NDArray[np.float64]

NOT_APART = "not distinguishable from zero"


def write_density_files(maps: Sequence[Density], folder: Path) -> tuple[Path, ...]:
    """Write the table twice (CSV, Parquet), and the cells as GeoJSON if they are not pairs.

    maps: of one metric and level, any slots and windows.
    """
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
    with geojson_path.open("w", encoding="utf-8") as geojson:
        geojson.writelines(density_geojson(maps))
    return csv_path, parquet_path, geojson_path


def density_table(maps: Sequence[Density]) -> Any:
    """One row a map and cell: what the docs call the density table. Shares are in [0, 1]."""
    centres = _centres(maps[0])
    return pa.concat_tables([_rows(one, centres) for one in maps])


def density_geojson(maps: Sequence[Density]) -> Iterator[str]:
    """Pieces of a FeatureCollection, one feature a map and cell; shares to 6 digits.

    `other` has no place, and is in the tables only.
    """
    grid, cells = maps[0].places.grid, maps[0].cells[:-1]
    shapes = [json.dumps(geometry(grid.outline(cell)), separators=(",", ":")) for cell in cells]
    comma = ""
    yield '{"type":"FeatureCollection","features":['
    for one in maps:
        for properties, shape in zip(_properties(one), shapes, strict=True):
            yield f'{comma}\n{{"type":"Feature","geometry":{shape},"properties":{properties}}}'
            comma = ","
    yield "\n]}\n"


def _properties(one: Density) -> Iterator[str]:
    """Of each cell of a map but `other`, as JSON."""
    of_map = {
        "slot": one.location.slot,
        "first_day": one.first_day and one.first_day.isoformat(),
        "last_day": one.last_day and one.last_day.isoformat(),
        "floor": one.floor,
        "reports": one.num_reports,
    }
    common = json.dumps(of_map, allow_nan=False)[:-1]
    unseen = f'"visible":false,"note":{json.dumps(NOT_APART)}}}'
    columns = [one.shares, one.estimate, one.std_error, one.low, one.high]
    rows = zip(one.cells[:-1], one.visible, *map(_six_digits, columns), strict=False)
    for cell, visible, share, estimate, error, low, high in rows:
        yield (
            f'{common},"cell":{json.dumps(cell)},"map_share":{share},"estimate":{estimate},'
            f'"std_error":{error},"low":{low},"high":{high},'
            + ('"visible":true,"note":""}' if visible else unseen)
        )


def _six_digits(values: Floats) -> list[float]:
    """Rounded shares; JSON has no word for one that is not finite."""
    if not np.isfinite(values).all():
        raise DecodeError("a share of the map is not finite; check the counts and parameters")
    size = np.floor(np.log10(np.maximum(np.abs(values), 1e-300)))
    scale = 10.0 ** np.clip(5 - size, 0, 300)
    return list((np.round(values * scale) / scale).tolist())


def is_of_pairs(one: Density) -> bool:
    """Whether the values are trips from cell to cell."""
    return one.location.pairs


def _rows(one: Density, centres: Any) -> Any:
    size = len(one.cells)

    def all_alike(value: object) -> Any:
        return pa.repeat(pa.scalar(value), size)

    return pa.table(
        {
            "metric": all_alike(one.metric.base_name),
            "slot": all_alike(one.location.slot),
            "first_day": pa.array([one.first_day] * size, pa.date32()),
            "last_day": pa.array([one.last_day] * size, pa.date32()),
            "cell": list(one.cells),
            "latitude": centres[0],
            "longitude": centres[1],
            "map_share": one.shares,
            "estimate": one.estimate,
            "std_error": one.std_error,
            "low": one.low,
            "high": one.high,
            "visible": one.visible,
            "note": np.where(one.visible, "", NOT_APART).tolist(),
            "floor": all_alike(one.floor),
            "reports": all_alike(one.num_reports),
        }
    )


def _centres(one: Density) -> tuple[Any, Any]:
    """Latitudes and longitudes of the cells; none for pairs and for `other`."""
    known: list[tuple[float | None, float | None]] = [(None, None)] * len(one.cells)
    if not is_of_pairs(one):
        known[:-1] = [one.places.grid.centre(cell) for cell in one.cells[:-1]]
    return tuple(
        pa.array([None if x is None else round(x, DECIMALS) for x in axis], pa.float64())
        for axis in zip(*known, strict=True)
    )
