"""Rows and shapes of maps: cells, areas, and their GeoJSON. The same input, the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from decoder.density.areas import AreaShares
from decoder.density.cells import Places
from decoder.density.maps import Density
from decoder.errors import DecodeError
from decoder.grid_cells import cell_center, cell_outline
from decoder.output.basemap import one_side
from decoder.output.density_text import row_notes
from decoder.typing import Floats
from rappor_core.grid.box import Point

Feature = tuple[Mapping[str, Any], Mapping[str, Any]]  # geometry and properties, of GeoJSON

DECIMALS = 6  # of a degree: a tenth of a meter


def geometry(outline: Sequence[Point]) -> dict[str, Any]:
    """The GeoJSON geometry of an outline: a Polygon, or a MultiPolygon where it crosses the
    antimeridian.

    outline: latitude and longitude, counter-clockwise; longitudes may pass 180.
    """
    ring = [(longitude, latitude) for latitude, longitude in outline]
    parts = [_closed(part) for turn in (-360, 0, 360) if (part := _on_the_map(ring, turn))]
    if len(parts) == 1:
        return {"type": "Polygon", "coordinates": parts[0]}
    return {"type": "MultiPolygon", "coordinates": parts}


def _on_the_map(ring: Sequence[Point], turn: int) -> list[Sequence[float]]:
    """The part of a convex ring, turned, between the longitudes -180 and 180; empty if none."""
    part: list[Sequence[float]] = [(x + turn, y) for x, y in ring]
    part = one_side(one_side(part, 0, 1, -180.0), 0, -1, 180.0)
    across = [x for x, _ in part]
    return part if part and min(across) < max(across) else []


def _closed(ring: Sequence[Sequence[float]]) -> list[list[list[float]]]:
    corners = [[round(x, DECIMALS), round(y, DECIMALS)] for x, y in ring]
    return [[*corners, corners[0]]]


UNLISTED = "unlisted"
_AREA_NUMBERS = ("map_share", "estimate", "std_error", "low", "high")


def cell_geometries(maps: Sequence[Density]) -> list[dict[str, Any] | None]:
    """The outline of each row of `density_table`; None for what is no cell."""
    grid, places = maps[0].places.grid, maps[0].places
    shapes = [geometry(cell_outline(grid, cell)) for cell in places.shown_cells]
    nowhere = [None] * (len(places.shown) - len(shapes) + (places.listed is not None))
    return [*shapes, *nowhere] * len(maps)


def density_table(maps: Sequence[Density]) -> Any:
    """The density table: one row a map and cell. Shares are in [0, 1].

    Where only some cells are shown, a last row of each map holds what it gives to the others.
    """
    cells = _cell_columns(maps[0].places)
    tables = [_rows(one, cells) for one in maps]
    return pa.concat_tables(tables)


def density_features(maps: Sequence[Density]) -> Iterator[Feature]:
    """Yield a GeoJSON feature for each map and cell; shares to 6 digits.

    Reserved values have no place, and are in the tables only.
    """
    shapes = [shape for shape in cell_geometries(maps[:1]) if shape is not None]
    names = ("slot", "first_day", "last_day", "detectable_share", "reports", "cell",
             *_AREA_NUMBERS, "detected", "note")  # fmt: skip
    for one in maps:
        table = density_table([one]).select(names).slice(0, len(shapes))
        for name in _AREA_NUMBERS:
            rounded = pa.array(six_digits(table[name].to_numpy()))
            table = table.set_column(names.index(name), name, rounded)
        yield from zip(shapes, table.to_pylist(), strict=True)


def six_digits(values: Floats) -> list[float]:
    """Rounded shares; JSON has no word for one that is not finite."""
    if not np.isfinite(values).all():
        raise DecodeError("a share of the map is not finite; check the counts and parameters")
    size = np.floor(np.log10(np.maximum(np.abs(values), 1e-300)))
    scale = 10.0 ** np.clip(5 - size, 0, 300)
    return list((np.round(values * scale) / scale).tolist())


def _rows(one: Density, cells: dict[str, Any]) -> Any:
    """The columns of a map; `cells`: those that all maps share."""
    size = len(one.cells)

    def all_alike(value: object, kind: Any = None) -> Any:
        return pa.repeat(pa.scalar(value, kind), size)

    table = pa.table(
        {
            "metric": all_alike(one.metric.base_name),
            "slot": all_alike(one.location.slot),
            "first_day": all_alike(one.first_day, pa.date32()),
            "last_day": all_alike(one.last_day, pa.date32()),
            **cells,
            "map_share": one.shares,
            "estimate": one.estimate,
            "std_error": one.std_error,
            "low": one.low,
            "high": one.high,
            "detected": one.detected,
            "note": pa.array(row_notes(one), pa.string()),
            "detectable_share": all_alike(one.detectable_share),
            "reports": all_alike(one.num_reports),
            "map_source": all_alike(one.source),
            "check_p": all_alike(one.check and one.check.p_value, pa.float64()),
            **_change_columns(one),
        }
    )
    return table if one.places.listed is None else pa.concat_tables([table, _rest(one, table)])


def _change_columns(one: Density) -> dict[str, Any]:
    """Changes from the other windows of a series, and since its first; null without any."""
    size, columns = len(one.cells), dict[str, Any]()
    for name, flag, found in (
        ("change", "changed", one.changes),
        ("since_first", "changed_since_first", one.since_first),
    ):
        none = np.full(size, np.nan)
        parts = (none,) * 3 if found is None else (found.difference, found.low, found.high)
        missing, ends = np.isnan(parts[0]), ("", "_low", "_high")
        columns |= {name + end: pa.array(part, mask=missing)
                    for end, part in zip(ends, parts, strict=True)}  # fmt: skip
        detected = missing if found is None else found.detected
        columns[flag] = pa.array(detected, mask=missing)
    return columns


def _rest(one: Density, table: Any) -> Any:
    """One row for the cells that are not shown: a share of the map, and no estimate."""
    known = table.slice(0, 1).to_pylist()[0]
    of_map = ("metric", "slot", "first_day", "last_day", "detectable_share", "reports",
              "map_source", "check_p")  # fmt: skip
    row = {name: known[name] for name in of_map}
    row |= {"cell": UNLISTED, "map_share": one.unlisted, "note": "cells that are not shown"}
    return pa.Table.from_pylist([row], schema=table.schema)


def _cell_columns(places: Places) -> dict[str, Any]:
    """Names, latitudes and longitudes of the cells; no center for pairs and reserved values."""
    names = places.shown
    known: list[tuple[float | None, float | None]] = [(None, None)] * len(names)
    if not places.pairs:
        cells = places.shown_cells
        known[: len(cells)] = [cell_center(places.grid, cell) for cell in cells]
    latitudes, longitudes = (
        pa.array([None if x is None else round(x, DECIMALS) for x in axis], pa.float64())
        for axis in zip(*known, strict=True)
    )
    return {"cell": pa.array(names), "latitude": latitudes, "longitude": longitudes}


def area_geometries(shares: Sequence[AreaShares]) -> list[Mapping[str, Any]]:
    """The outline of each row of `area_rows`, as it was given."""
    return [shape for found in shares for shape in found.areas.geometries]


def area_rows(maps: Sequence[Density], shares: Sequence[AreaShares]) -> list[dict[str, Any]]:
    """The rows of areas.csv, of all answers: each area in each map, as plain values."""
    rows = []
    for one, found in zip(maps, shares, strict=True):
        areas = found.areas
        cells = areas.weights.sum(axis=1)
        columns = [six_digits(getattr(found, name)) for name in _AREA_NUMBERS]
        for i, name in enumerate(areas.names):
            numbers = zip(_AREA_NUMBERS, columns, strict=True)
            rows.append({
                "name": name,
                "metric": one.metric.base_name,
                "slot": one.location.slot,
                "first_day": one.first_day,
                "last_day": one.last_day,
                "cells": round(float(cells[i]), 4),
                "covered": round(float(areas.covered[i]), 6),
                **{number: column[i] for number, column in numbers},
                "detected": bool(found.detected[i]),
                "reports": one.num_reports,
            })  # fmt: skip
    return rows
