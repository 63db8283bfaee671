"""Read tables from the files of `rappor decode -o`, `rappor density -o` and `rappor flows -o`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from disclosure.errors import ReleaseError, TableError
from disclosure.release.reading import CsvRow, DamagedFileError, JsonPart, read_csv, read_json
from disclosure.release.tables import NUMBERS, PARTITION, CellTable, stratum_key
from disclosure.typing import Floats
from rappor_core.errors import file_problem, shown
from rappor_core.grid.box import RESERVED
from rappor_core.grid.grid import PAIR_SEPARATOR

_UNLISTED = "unlisted"  # the row of the cells that are not shown, in density.csv
_WHOLE = ("one_hot", "boolean")  # encodings of metrics whose values are all candidates
_RESULTS = "results.json"  # of a decoding, or of flows
_DECODED, _DENSITY, _FLOWS = "candidates.csv", "density.csv", "flows.csv"
JOINT = "joint.csv"
_UNPUBLISHED = {
    JOINT: "pairs, which rappor release synthesize decoded publishes in rows",
    "curve.csv": "numbers, of which no release is made",
}  # files of rappor decode -o that no table is made of
_SIDES = ("origin", "destination")


def read_source(folder: Path, strata: Mapping[str, str] | None = None) -> list[CellTable]:
    """The tables of a folder that `rappor decode`, `rappor density` or `rappor flows` has written.

    Args:
        folder: with results.json, manifest.json and candidates.csv; with density.csv; or with
            results.json and flows.csv.
        strata: what the reports were filtered by before decoding, as {"region": "north"}.

    Returns:
        One table of a decoding; one a slot and window of a density; of flows one between zones and
        one between cells.

    Raises:
        ReleaseError: none of these is there, or results of two kinds are; a file cannot be used,
            or holds numbers that no decoding gives.
    """
    try:
        mark = mark_of(folder)
        if mark in _UNPUBLISHED:
            raise ReleaseError(f"{folder} holds {mark} of a metric of {_UNPUBLISHED[mark]}")
        kind = _KINDS[mark]
    except OSError as error:
        raise ReleaseError(f"{folder}: {file_problem(error)}") from None
    try:
        return list(kind.tables(folder, strata or {}))
    except DamagedFileError as error:
        raise ReleaseError(f"{error}; {kind.way_out}") from None


def mark_of(folder: Path) -> str:
    """The file that tells which kind of results a folder holds. Raises ReleaseError for none and
    for several."""
    found = {
        name: whose
        for name, whose in (
            (_DENSITY, "rappor density -o"),
            (_FLOWS, "rappor flows -o"),
            *((name, "rappor decode -o") for name in (_DECODED, *_UNPUBLISHED)),
        )
        if (folder / name).is_file()
    }
    if (folder / _RESULTS).is_file() and not found:
        found[_RESULTS] = "rappor decode -o or rappor flows -o"
    if len(found) > 1:
        files = " and ".join(f"{name} of {whose}" for name, whose in found.items())
        raise ReleaseError(
            f"{folder} holds results of several kinds, of which one would be left out: {files}; "
            "write each into a folder of its own"
        )
    if not found:
        raise ReleaseError(
            f"{folder} holds neither {_RESULTS} of rappor decode -o, {_DENSITY} of rappor density "
            f"-o, nor {_FLOWS} of rappor flows -o"
        )
    (mark,) = found
    if mark == _RESULTS:  # the other file is lost
        return _FLOWS if _is_of_flows(folder / _RESULTS) else _DECODED
    return mark


def _is_of_flows(path: Path) -> bool:
    try:
        return isinstance(read_json(path).at("flow").content, dict)
    except DamagedFileError:
        return False


def _decoding_tables(folder: Path, strata: Mapping[str, str]) -> Iterator[CellTable]:
    """results.json and manifest.json tell what it is; candidates.csv has the numbers."""
    found, made = read_json(folder / _RESULTS), read_json(folder / "manifest.json")
    if made.text("metric") != found.text("metric"):
        raise DamagedFileError(
            f"{folder}: {_RESULTS} is of the metric {shown(found.text('metric'))}, and "
            f"manifest.json of {shown(made.text('metric'))}"
        )
    first, last = made.day("first_day"), made.day("last_day")
    if first is None or last is None:
        raise ReleaseError(
            f"{made.path}: the decoding does not say its days, so that it cannot be told whether "
            "they are sealed; decode an aggregate that was fetched by days"
        )
    path = folder / _DECODED
    columns = ("value", *NUMBERS, "shrunken", "detected", "selected_low", "selected_high",
               "same_bits_as")  # fmt: skip
    rows = [row for row in read_csv(path, columns) if not row.text("same_bits_as")]
    seen = _flags(rows)
    direct = found.text("diagnostics", "method") == "direct"

    def pick(of_seen: str, of_rest: str) -> Floats:
        names = (of_seen if flag else of_rest for flag in seen.tolist())
        return np.array([row.number(name) for row, name in zip(rows, names, strict=True)])

    yield _checked(
        path,
        metric=found.text("metric"),
        strata=stratum_key(strata),
        first_day=first,
        last_day=last,
        num_reports=found.count("summary", "num_reports"),
        cells=[row.text("value") for row in rows],
        estimate=pick("shrunken", "estimate"),
        std_error=_column(rows, "std_error"),
        low=pick("selected_low", "low").clip(0, 1),
        high=pick("selected_high", "high").clip(0, 1),
        detected=seen,
        complete=direct and made.text("params", "encoding") in _WHOLE,
        level=made.number("level"),
        max_correlation=0.0 if direct else 1.0,
        listed=direct,
        unbiased=_column(rows, "estimate"),
    )


def _density_tables(folder: Path, strata: Mapping[str, str]) -> Iterator[CellTable]:
    path = folder / _DENSITY
    shapes = _shapes(folder / "density.geojson")
    keys = ("metric", "slot", "first_day", "last_day", "reports")
    groups: dict[tuple[str, ...], list[CsvRow]] = {}
    for row in read_csv(path, (*keys, "cell", *NUMBERS, "detected")):
        groups.setdefault(tuple(map(row.text, keys)), []).append(row)
    if not groups:
        raise DamagedFileError(f"{path} has no rows")
    for rows in groups.values():
        head = rows[0]
        if not head.text("first_day") or not head.text("last_day"):
            raise ReleaseError(
                f"{path}: the map does not say its days; make it of aggregates that do"
            )
        known = [row for row in rows if row.text("estimate")]
        for row in rows:
            if not row.text("estimate") and row.text("cell") not in (_UNLISTED, *RESERVED):
                raise row.refused("estimate", f"cell {shown(row.text('cell'))} has none")
        yield _checked(
            path,
            metric=head.text("metric"),
            strata=stratum_key({"slot": head.text("slot"), **strata}),
            first_day=head.day("first_day"),
            last_day=head.day("last_day"),
            num_reports=head.count("reports"),
            cells=[row.text("cell") for row in known],
            detected=_flags(known),
            complete=len(known) == len(rows),
            shapes=shapes,
            **{name: _column(known, name) for name in NUMBERS},
        )


def _flow_tables(folder: Path, strata: Mapping[str, str]) -> Iterator[CellTable]:
    """Pairs of zones, then pairs of cells: two tables of the same people, each pair of zones the
    sum of the pairs of their cells."""
    found, path = read_json(folder / _RESULTS), folder / _FLOWS
    if found.count("flow", "lag"):
        raise ReleaseError(
            f"{found.path}: a metric of moves tells how many moved and how far, and has no matrix"
        )
    first, last = found.day("first_day"), found.day("last_day")
    if first is None or last is None:
        raise ReleaseError(
            f"{found.path}: the flows do not say their days; make them of aggregates that do"
        )
    if PARTITION in strata:
        raise ReleaseError(
            f"{folder}: the stratum {PARTITION!r} of flows is zones or cells; name another"
        )
    zone_of = {one.text("cell"): one.text("zone") for one in found.items("cells")}
    zones, flows = found.items("zones"), read_csv(path, (*_SIDES, *NUMBERS, "detected"))
    members: dict[str, list[str]] = {}
    for row in flows:
        for side in _SIDES:
            if row.text(side) not in zone_of:
                told = f"{shown(row.text(side))} is no cell of {_RESULTS}"
                raise row.refused(side, told)
        pair = PAIR_SEPARATOR.join(zone_of[row.text(side)] for side in _SIDES)
        members.setdefault(pair, []).append(_pair(row))
    held = {pair: tuple(pairs) for pair, pairs in members.items()}
    tables: tuple[tuple[str, Path, Sequence[CsvRow | JsonPart], Any], ...] = (
        ("zones", found.path, zones, held),
        ("cells", path, flows, {}),
    )
    for name, file, rows, several in tables:
        yield _checked(
            file,
            metric=found.text("metric"),
            strata=stratum_key({PARTITION: name, **strata}),
            first_day=first,
            last_day=last,
            num_reports=found.count("num_reports"),
            cells=[_pair(row) for row in rows],
            detected=_flags(rows),
            complete=True,
            level=found.number("level"),
            members=several,
            **{column: _column(rows, column) for column in NUMBERS},
        )


def _checked(path: Path, **fields: Any) -> CellTable:
    """A table of numbers that a decoding can give. Raises DamagedFileError with their file."""
    try:
        table = CellTable(**fields)
        table.check_shares()
    except TableError as error:
        raise DamagedFileError(f"{path}: {error}") from None
    return table


def _flags(rows: Sequence[CsvRow | JsonPart]) -> Any:
    return np.array([row.flag("detected") for row in rows], dtype=bool)


def _column(rows: Sequence[CsvRow | JsonPart], name: str) -> Floats:
    return np.array([row.number(name) for row in rows], dtype=float)


def _pair(row: CsvRow | JsonPart) -> str:
    return PAIR_SEPARATOR.join(row.text(side) for side in _SIDES)


def _shapes(path: Path) -> dict[str, Any]:
    """Outline by cell; none for a map of pairs."""
    if not path.is_file():
        return {}
    return {
        one.text("properties", "cell"): one.at("geometry").content
        for one in read_json(path).items("features")
    }


class _Kind(NamedTuple):
    """Results that tables are made of. way_out: where a file of them is damaged."""

    tables: Callable[[Path, Mapping[str, str]], Iterator[CellTable]]
    way_out: str


_KINDS = {
    _DECODED: _Kind(_decoding_tables, "decode it again with rappor decode -o"),
    _DENSITY: _Kind(_density_tables, "make the map again with rappor density -o"),
    _FLOWS: _Kind(_flow_tables, "make the flows again with rappor flows -o"),
}
