"""Readers for result folders from `rappor decode -o`, `density -o` and `flows -o`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AliasPath, Field, with_config

from decoder.tables.reading import Row, read_table
from disclosure.errors import ReleaseError, TableError
from disclosure.files import LENIENT, naming, read_json, reading
from disclosure.release.tables import NUMBERS, PARTITION, CellTable, stratum_key
from disclosure.typing import Floats
from rappor_core.errors import file_problem, shown
from rappor_core.grid.box import RESERVED
from rappor_core.grid.grid import PAIR_SEPARATOR

_UNLISTED = "unlisted"  # the row in density.csv for the cells that are not shown
_WHOLE = ("one_hot", "boolean")  # encodings of metrics whose values are all candidates
_RESULTS = "results.json"  # of a decoding, or of flows
_DECODED, _DENSITY, _FLOWS = "candidates.csv", "density.csv", "flows.csv"
JOINT = "joint.csv"
_UNPUBLISHED = {
    JOINT: "pairs, which rappor release synthesize decoded publishes in rows",
    "curve.csv": "numbers, which cannot be released",
}  # files of rappor decode -o that are not published as tables
_SIDES = ("origin", "destination")


def read_source(folder: Path, strata: Mapping[str, str] | None = None) -> list[CellTable]:
    """Return the tables of a folder from `rappor decode`, `rappor density` or `rappor flows`.

    Args:
        folder: The folder, with results.json, manifest.json and candidates.csv; or with
            density.csv; or with results.json and flows.csv.
        strata: The filters of the reports before decoding, such as {"region": "north"}.

    Returns:
        One table for a decoding; one per slot and window for a density; for flows, one between
            zones and one between cells.

    Raises:
        ReleaseError: The folder has none or several of these, a file is invalid, or its numbers
            cannot be from a decoding.
    """
    try:
        mark = mark_of(folder)
    except OSError as error:
        raise ReleaseError(f"{folder}: {file_problem(error)}") from None
    if mark in _UNPUBLISHED:
        raise ReleaseError(f"{folder} contains {mark} of a metric of {_UNPUBLISHED[mark]}")
    tables_of, hint = _KINDS[mark]
    try:
        return list(tables_of(folder, strata or {}))
    except TableError as error:
        raise ReleaseError(f"{error}; {hint}") from None


def mark_of(folder: Path) -> str:
    """Return the file that identifies the kind of results in a folder.

    Raises ReleaseError if there is none, or several."""
    makers = {_DENSITY: "rappor density -o", _FLOWS: "rappor flows -o"}
    makers |= dict.fromkeys((_DECODED, *_UNPUBLISHED), "rappor decode -o")
    marks = {name: maker for name, maker in makers.items() if (folder / name).is_file()}
    if (folder / _RESULTS).is_file() and not marks:
        marks[_RESULTS] = "rappor decode -o or rappor flows -o"
    if len(marks) > 1:
        files = " and ".join(f"{name} of {maker}" for name, maker in marks.items())
        raise ReleaseError(
            f"{folder} contains results of several kinds: {files}; write each into a separate "
            "folder"
        )
    if not marks:
        raise ReleaseError(
            f"{folder} contains neither {_RESULTS} of rappor decode -o, {_DENSITY} of rappor "
            f"density -o, nor {_FLOWS} of rappor flows -o"
        )
    (mark,) = marks
    if mark != _RESULTS:
        return mark
    with suppress(TableError):  # the other file is missing
        if read_json(folder / _RESULTS, dict[str, Any]).get("flow"):
            return _FLOWS
    return _DECODED


@with_config(LENIENT)
@dataclass(frozen=True)
class _Results:
    """The relevant contents of a decoding's results.json."""

    metric: str
    num_reports: Annotated[int, Field(validation_alias=AliasPath("summary", "num_reports"))]
    method: Annotated[str, Field(validation_alias=AliasPath("diagnostics", "method"))]


@with_config(LENIENT)
@dataclass(frozen=True)
class _Manifest:
    """The relevant contents of a decoding's manifest.json."""

    metric: str
    level: float
    encoding: Annotated[str, Field(validation_alias=AliasPath("params", "encoding"))]
    first_day: date | None = None
    last_day: date | None = None


def _decoding_tables(folder: Path, strata: Mapping[str, str]) -> Iterator[CellTable]:
    """Read a decoding: results.json and manifest.json describe it, candidates.csv has the data."""
    results = read_json(folder / _RESULTS, _Results)
    manifest = read_json(folder / "manifest.json", _Manifest)
    if manifest.metric != results.metric:
        raise TableError(
            f"{folder}: {_RESULTS} is of the metric {shown(results.metric)}, and manifest.json of "
            f"{shown(manifest.metric)}"
        )
    if manifest.first_day is None or manifest.last_day is None:
        raise ReleaseError(
            f"{folder}: the decoding has no dates, so it is unknown whether its days are sealed; "
            "decode an aggregate with dates"
        )
    columns = ("value", *NUMBERS, "shrunken", "detected", "selected_low", "selected_high",
               "same_bits_as")  # fmt: skip
    direct = results.method == "direct"
    with _numbers_of(folder / _DECODED):
        rows = [row for row in read_table(folder / _DECODED, columns) if not row.cells[columns[-1]]]
        detected = _flags(rows)

        def pick(of_seen: str, of_rest: str) -> Floats:
            names = (of_seen if flag else of_rest for flag in detected.tolist())
            return np.array([row.number(name) for row, name in zip(rows, names, strict=True)])

        yield _checked(
            metric=results.metric,
            strata=stratum_key(strata),
            first_day=manifest.first_day,
            last_day=manifest.last_day,
            num_reports=results.num_reports,
            cells=[row.raw("value") for row in rows],
            estimate=pick("shrunken", "estimate"),
            std_error=_column(rows, "std_error"),
            low=pick("selected_low", "low").clip(0, 1),
            high=pick("selected_high", "high").clip(0, 1),
            detected=detected,
            complete=direct and manifest.encoding in _WHOLE,
            level=manifest.level,
            max_correlation=0.0 if direct else 1.0,
            listed=direct,
            unbiased=_column(rows, "estimate"),
        )


def _density_tables(folder: Path, strata: Mapping[str, str]) -> Iterator[CellTable]:
    path = folder / _DENSITY
    shapes = _shapes(folder / "density.geojson")
    keys = ("metric", "slot", "first_day", "last_day", "reports")
    groups: dict[tuple[str, ...], list[Row]] = {}
    with _numbers_of(path):
        for row in read_table(path, (*keys, "cell", *NUMBERS, "detected")):
            groups.setdefault(tuple(row.cells[key] for key in keys), []).append(row)
        if not groups:
            raise TableError("there are no rows")
        for (metric, slot, first, last, _), rows in groups.items():
            if not first or not last:
                raise ReleaseError(f"{path}: the map has no dates; decode aggregates with dates")
            listed = [row for row in rows if row.cells["estimate"]]
            for row in rows:
                if not row.cells["estimate"] and row.cells["cell"] not in (_UNLISTED, *RESERVED):
                    raise row.refused("estimate", f"cell {shown(row.cells['cell'])} has none")
            yield _checked(
                metric=metric,
                strata=stratum_key({"slot": slot, **strata}),
                first_day=_day(rows[0], "first_day"),
                last_day=_day(rows[0], "last_day"),
                num_reports=rows[0].whole_number("reports"),
                cells=[row.raw("cell") for row in listed],
                detected=_flags(listed),
                complete=len(listed) == len(rows),
                shapes=shapes,
                **{name: _column(listed, name) for name in NUMBERS},
            )


@with_config(LENIENT)
@dataclass(frozen=True)
class _Place:
    cell: str
    zone: str


@with_config(LENIENT)
@dataclass(frozen=True)
class _Pair:
    """A flow between two zones."""

    origin: str
    destination: str
    estimate: float
    std_error: float
    low: float
    high: float
    detected: bool


@with_config(LENIENT)
@dataclass(frozen=True)
class _Flows:
    """The relevant contents of the results.json of flows."""

    metric: str
    level: float
    num_reports: int
    lag: Annotated[int, Field(validation_alias=AliasPath("flow", "lag"))]
    cells: tuple[_Place, ...]
    zones: tuple[_Pair, ...]
    first_day: date | None = None
    last_day: date | None = None


def _flow_tables(folder: Path, strata: Mapping[str, str]) -> Iterator[CellTable]:
    """Yield a table of zone pairs, then one of cell pairs, for the same people.

    Each zone pair is the sum of the pairs of its cells."""
    source, path = folder / _RESULTS, folder / _FLOWS
    results = read_json(source, _Flows)
    if results.lag:
        raise ReleaseError(
            f"{source}: a metric of moves has no matrix, only how many moved and how far"
        )
    if results.first_day is None or results.last_day is None:
        raise ReleaseError(f"{source}: the flows have no dates; decode aggregates with dates")
    if PARTITION in strata:
        raise ReleaseError(
            f"{folder}: flows already have a stratum {PARTITION!r} (zones or cells); choose "
            "another name"
        )
    zone_of = {cell.cell: cell.zone for cell in results.cells}
    members: dict[str, list[str]] = {}
    with _numbers_of(path):
        flows = list(read_table(path, (*_SIDES, *NUMBERS, "detected")))
        for row in flows:
            for side in _SIDES:
                if row.cells[side] not in zone_of:
                    raise row.refused(side, f"{shown(row.cells[side])} is not a cell of {_RESULTS}")
            pair = PAIR_SEPARATOR.join(zone_of[row.cells[side]] for side in _SIDES)
            members.setdefault(pair, []).append(_pair(row))
        by_cell = {name: _column(flows, name) for name in NUMBERS} | {"detected": _flags(flows)}
    zones = results.zones
    by_zone = {name: np.array([getattr(zone, name) for zone in zones]) for name in by_cell}
    pairs_of = {pair: tuple(pairs) for pair, pairs in members.items()}
    names = [PAIR_SEPARATOR.join((zone.origin, zone.destination)) for zone in zones]
    for file, name, cells, columns, several in (
        (source, "zones", names, by_zone, pairs_of),
        (path, "cells", list(map(_pair, flows)), by_cell, {}),
    ):
        with naming(file):
            yield _checked(
                metric=results.metric,
                strata=stratum_key({PARTITION: name, **strata}),
                first_day=results.first_day,
                last_day=results.last_day,
                num_reports=results.num_reports,
                cells=cells,
                complete=True,
                level=results.level,
                members=several,
                **columns,
            )


def _checked(**fields: Any) -> CellTable:
    """Return a table whose numbers are valid for a decoding. Raises TableError."""
    table = CellTable(**fields)
    table.check_shares()
    return table


@contextmanager
def _numbers_of(path: Path) -> Iterator[None]:
    """Add the name of a file of numbers to errors raised in the block."""
    with naming(path), reading():
        yield


def _flags(rows: Sequence[Row]) -> Any:
    return np.array([row.flag("detected") for row in rows], dtype=bool)


def _column(rows: Sequence[Row], name: str) -> Floats:
    return np.array([row.number(name) for row in rows], dtype=float)


def _day(row: Row, column: str) -> date:
    try:
        return date.fromisoformat(row.cells[column])
    except ValueError:
        raise row.refused(
            column, f"{shown(row.cells[column])} is not a day, as 2026-11-02"
        ) from None


def _pair(row: Row) -> str:
    return PAIR_SEPARATOR.join(row.cells[side] for side in _SIDES)


@with_config(LENIENT)
@dataclass(frozen=True)
class _Feature:
    cell: Annotated[str, Field(validation_alias=AliasPath("properties", "cell"))]
    geometry: Any


@with_config(LENIENT)
@dataclass(frozen=True)
class _Features:
    features: tuple[_Feature, ...]


def _shapes(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    return {feature.cell: feature.geometry for feature in read_json(path, _Features).features}


_KINDS: dict[str, tuple[Callable[[Path, Mapping[str, str]], Iterator[CellTable]], str]] = {
    _DECODED: (_decoding_tables, "decode it again with rappor decode -o"),
    _DENSITY: (_density_tables, "make the map again with rappor density -o"),
    _FLOWS: (_flow_tables, "make the flows again with rappor flows -o"),
}
