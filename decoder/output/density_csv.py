"""Rows, shapes and sentences about maps: cells, areas, GeoJSON, and notes for readers."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from decoder.density.areas import AreaShares
from decoder.density.maps import Density
from decoder.errors import DecodeError
from decoder.grid_cells import cell_center, cell_outline
from decoder.output.basemap import one_side
from decoder.tables.format import percent
from decoder.tables.table import SHARE_INTERVAL, Column, ColumnType, TableSchema
from decoder.typing import Flags, Floats
from rappor_core.grid.box import Point
from rappor_core.text import counted

Feature = tuple[Mapping[str, Any], Mapping[str, Any]]  # GeoJSON geometry and properties

KM_A_DEGREE = 111.2
NOT_APART = "not distinguishable from zero"
NONE_DETECTED = "No cell is detected"
MAP_APART = "map_share, drawn towards other cells, lies outside the interval"
_MAX_NAMED = 4  # the maximum number of windows named in a warning
DECIMALS = 6  # of a degree, for a tenth of a meter
UNLISTED = "unlisted"
_NUMBERS = ("map_share", "estimate", "std_error", "low", "high")
_TEXT, _SHARE, _DAY = ColumnType.TEXT, ColumnType.SHARE, ColumnType.DAY
_WHERE = (
    Column("metric", _TEXT, "The declared name of the metric."),
    Column("slot", _TEXT, "The slot of the day.", shown=True),
    Column("first_day", _DAY, "First day of the window."),
    Column("last_day", _DAY, "Last day of the window.", "to", shown=True),
)
MAP_SHARE = Column("map_share", _SHARE, "One best-fit map, which sums to 1.", "map",
                   shown=True)  # fmt: skip
ESTIMATES = (
    Column("estimate", _SHARE, "Unbiased share of all answers.", shown=True),
    *SHARE_INTERVAL,
    Column("detected", ColumnType.FLAG, "Whether the share is distinguishable from zero.", "≠ 0",
           shown=True),
)  # fmt: skip
CELL = Column("cell", _TEXT, "The cell, or `other`, `no_data` and `unlisted`.", shown=True)
_REPORTS = Column("reports", ColumnType.INTEGER, "Reports of the slot and window.")


def change_columns(prefix: str, of: str, *, shown: bool = False) -> tuple[Column, ...]:
    """Return the columns of a change and its interval."""
    about = {"": f"Change of the share {of}.", "_low": "Lower end of the interval of the decision.",
             "_high": "Upper end of the interval of the decision."}  # fmt: skip
    return tuple(
        Column(prefix + end, ColumnType.POINTS, meaning, shown=shown)
        for end, meaning in about.items()
    )


DENSITY = TableSchema(
    "density",
    "Shares of cells",
    (
        *_WHERE,
        CELL,
        Column("latitude", ColumnType.NUMBER, "Of the cell's center.", unit="degrees"),
        Column("longitude", ColumnType.NUMBER, "Of the cell's center.", unit="degrees"),
        MAP_SHARE,
        *ESTIMATES,
        Column("note", _TEXT, "What a reader should know of the row."),
        Column("detectable_share", _SHARE, "Smallest share that is detected 8 times in 10."),
        _REPORTS,
        Column("map_source", _TEXT, "How the map was made."),
        Column("check_p", ColumnType.P_VALUE, "P-value of the test that the map fits its reports."),
        *change_columns("change", "from its mean in the other windows"),
        Column("changed", ColumnType.FLAG, "Whether that change is detected."),
        *change_columns("since_first", "since the first window"),
        Column("changed_since_first", ColumnType.FLAG, "Whether that change is detected."),
    ),
)
PRINTED = TableSchema(
    "density",
    "Shares of cells",
    (
        CELL,
        Column("place", _TEXT, "What the cell is called, or its center.", shown=True),
        MAP_SHARE,
        Column("in_box", _SHARE, "The same, of those in the box.", "in box", shown=True),
        *ESTIMATES,
        *change_columns("since_first", "since the first window", shown=True),
        Column("changed_since_first", ColumnType.FLAG, "Whether that is detected.", "≠ 0",
               shown=True),
    ),
)  # fmt: skip
AREAS = TableSchema(
    "areas",
    "Shares of areas",
    (
        Column("name", _TEXT, "The name of the area.", "area", shown=True),
        *_WHERE,
        Column("cells", ColumnType.NUMBER, "Cells that the area covers, parts among them."),
        Column("covered", _SHARE, "Part of the area that lies in the box."),
        MAP_SHARE,
        *ESTIMATES,
        _REPORTS,
    ),
)


def geometry(outline: Sequence[Point]) -> dict[str, Any]:
    """Return a convex outline as a counter-clockwise Polygon, split at 180 degrees if needed."""
    parts = []
    for turn in (-360, 0, 360):
        ring = np.array(outline)[:, ::-1] + np.array([turn, 0.0])
        ring = one_side(one_side(ring, 0, 1, -180.0), 0, -1, 180.0)
        if len(ring) and ring[:, 0].min() < ring[:, 0].max():
            corners = [[round(x, DECIMALS), round(y, DECIMALS)] for x, y in ring.tolist()]
            parts.append([[*corners, corners[0]]])
    if len(parts) == 1:
        return {"type": "Polygon", "coordinates": parts[0]}
    return {"type": "MultiPolygon", "coordinates": parts}


def cell_geometries(maps: Sequence[Density]) -> list[dict[str, Any] | None]:
    """Return the outline of each row of `density_table`; None for reserved values."""
    places = maps[0].places
    shapes = [geometry(cell_outline(places.grid, cell)) for cell in places.shown_cells]
    nowhere = [None] * (len(places.shown) - len(shapes) + (places.listed is not None))
    return [*shapes, *nowhere] * len(maps)


def density_table(maps: Sequence[Density]) -> Any:
    """Return the table of maps: one row per map and cell, and one row for all cells not shown."""
    places = maps[0].places
    centers: list[tuple[float | None, float | None]] = [(None, None)] * len(places.shown)
    if not places.pairs:
        cells = places.shown_cells
        centers[: len(cells)] = [cell_center(places.grid, cell) for cell in cells]
    latitudes, longitudes = (
        pa.array([None if x is None else round(x, DECIMALS) for x in axis], pa.float64())
        for axis in zip(*centers, strict=True)
    )
    cells_alone = {"cell": pa.array(places.shown), "latitude": latitudes, "longitude": longitudes}
    return pa.concat_tables([_rows(density, cells_alone) for density in maps])


def _rows(density: Density, cells: dict[str, Any]) -> Any:
    """Return the rows of a map; `cells` are the columns that all maps share."""
    size = len(density.cells)
    of_map = {
        "metric": pa.scalar(density.metric.base_name),
        "slot": pa.scalar(density.location.slot),
        "first_day": pa.scalar(density.first_day, pa.date32()),
        "last_day": pa.scalar(density.last_day, pa.date32()),
        "detectable_share": pa.scalar(density.detectable_share),
        "reports": pa.scalar(density.num_reports),
        "map_source": pa.scalar(density.source),
        "check_p": pa.scalar(density.check and density.check.p_value, pa.float64()),
    }
    outside = (density.shares < density.low) | (density.shares > density.high)
    notes = notes_of(density.detected, outside, (NOT_APART, MAP_APART))
    columns = cells | {name: pa.repeat(value, size) for name, value in of_map.items()}
    columns |= {"map_share": density.shares, "note": pa.array(notes, pa.string())}
    columns |= {name: getattr(density, name) for name in (*_NUMBERS[1:], "detected")}
    for name, flag, change in (
        ("change", "changed", density.changes),
        ("since_first", "changed_since_first", density.since_first),
    ):
        none = np.full(size, np.nan)
        parts = (none,) * 3 if change is None else (change.difference, change.low, change.high)
        missing = np.isnan(parts[0])
        for end, part in zip(("", "_low", "_high"), parts, strict=True):
            columns[name + end] = pa.array(part, mask=missing)
        columns[flag] = pa.array(missing if change is None else change.detected, mask=missing)
    table = pa.table({name: columns[name] for name in DENSITY.names})
    if density.places.listed is None:
        return table
    rest = {name: value.as_py() for name, value in of_map.items()}
    rest |= {"cell": UNLISTED, "map_share": density.unlisted, "note": "cells that are not shown"}
    return pa.concat_tables([table, pa.Table.from_pylist([rest], schema=table.schema)])


def density_features(maps: Sequence[Density]) -> Iterator[Feature]:
    """Yield a GeoJSON feature for each map and cell, with shares to 6 digits."""
    shapes = [shape for shape in cell_geometries(maps[:1]) if shape is not None]
    names = ("slot", "first_day", "last_day", "detectable_share", "reports", "cell",
             *_NUMBERS, "detected", "note")  # fmt: skip
    for density in maps:
        table = density_table([density]).select(names).slice(0, len(shapes))
        for name in _NUMBERS:
            rounded = pa.array(_six_digits(table[name].to_numpy()))
            table = table.set_column(names.index(name), name, rounded)
        yield from zip(shapes, table.to_pylist(), strict=True)


def _six_digits(values: Floats) -> list[float]:
    if not np.isfinite(values).all():
        raise DecodeError("a share of the map is not finite; check the counts and parameters")
    size = np.floor(np.log10(np.maximum(np.abs(values), 1e-300)))
    scale = 10.0 ** np.clip(5 - size, 0, 300)
    return list((np.round(values * scale) / scale).tolist())


def area_rows(maps: Sequence[Density], shares: Sequence[AreaShares]) -> list[dict[str, Any]]:
    """Return the rows of areas.csv: each area in each map, as plain values."""
    return [
        {
            "name": name,
            "metric": density.metric.base_name,
            "slot": density.location.slot,
            "first_day": density.first_day,
            "last_day": density.last_day,
            "cells": round(float(cells), 4),
            "covered": round(float(covered), 6),
            **dict(zip(_NUMBERS, numbers, strict=True)),
            "detected": bool(detected),
            "reports": density.num_reports,
        }
        for density, table in zip(maps, shares, strict=True)
        for name, cells, covered, detected, *numbers in zip(
            table.areas.names,
            table.areas.weights.sum(axis=1),
            table.areas.covered,
            table.detected,
            *(_six_digits(getattr(table, number)) for number in _NUMBERS),
            strict=True,
        )
    ]


def window_text(density: Density) -> str:
    """Return the first and last day of a map as text; "" if unknown."""
    days = list(dict.fromkeys(str(day) for day in (density.first_day, density.last_day) if day))
    period = density.metric.period
    if period == "day" or not days:
        return " to ".join(days)
    return f"{period} to {days[0]}" if len(days) == 1 else f"{period}s ending {' to '.join(days)}"


def notes_of(detected: Flags, outside: Flags, words: tuple[str, str]) -> list[str]:
    """Return a note per row: `words[0]` if not detected, `words[1]` if outside its interval."""
    return [
        "; ".join(text for text, fits in zip(words, (not flag, out), strict=True) if fits)
        for flag, out in zip(detected.tolist(), outside.tolist(), strict=True)
    ]


def visible_text(density: Density) -> str:
    """Return a sentence on the smallest share that the map can detect, and how to improve it."""
    shares = density.shares[: density.num_cells]
    mass = float(shares[shares >= density.detectable_share].sum())
    text = (
        f"A share of {percent(density.detectable_share)} is detected 8 times in 10, a smaller one "
        f"less often; cells of at least this share have {percent(mass)} of the map."
    )
    if density.places.listed is not None:
        text += f" Cells that are not shown have {percent(density.unlisted)} of it."
    if mass < 0.5:
        text += " To detect more, use a coarser level, more reports, or a larger epsilon."
    return text


def grouped_warnings(maps: Sequence[Density]) -> list[str]:
    """Return each warning once, regardless of its numbers, with its slots and windows."""
    groups: dict[str, dict[str, str]] = {}
    for density in maps:
        where = ", ".join(filter(None, (density.slot_text, window_text(density))))
        for warning in density.warnings:
            groups.setdefault(re.sub(r"[0-9][0-9.,e-]*", "#", warning), {})[where] = warning
    texts = []
    for places in groups.values():
        *names, text = *places, list(places.values())[-1]
        if len(maps) > 1 and len(names) == len(maps):
            text = f"In all {len(maps)} maps: {text}"
        elif len(maps) > 1:
            more = len(names) - _MAX_NAMED
            listed = "; ".join(names[-_MAX_NAMED:]) + (f" and {more} more" if more > 0 else "")
            text = f"{listed}: {text}"
        texts.append(text)
    return texts


def cell_size(density: Density) -> tuple[float, float]:
    """Return the width and height in km of a cell in the middle of the box."""
    middle = cell_outline(density.places.grid, density.places.shown_cells[density.num_cells // 2])
    latitudes, longitudes = zip(*middle, strict=True)
    high = (max(latitudes) - min(latitudes)) * KM_A_DEGREE
    shrunk = math.cos(math.radians(sum(latitudes) / len(latitudes)))
    return (max(longitudes) - min(longitudes)) * KM_A_DEGREE * shrunk, high


def held_text(density: Density) -> str:
    """Return a sentence on places that devices store for later answers; "" if they store none."""
    if not density.location.hold:
        return ""
    span = counted(density.location.hold, density.metric.period)
    return (
        f"The map shows where devices were last seen, within {span} of their answer, not who "
        f"was there in this window; changes lag by up to {span}."
    )
