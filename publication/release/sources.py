"""Read tables from the files of `rappor decode -o`, `rappor density -o` and `rappor flows -o`."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from disclosure_control.errors import ReleaseError
from disclosure_control.typing import Floats
from publication.release.tables import PARTITION, CellTable, stratum_key
from rappor_core.errors import RapporError, file_problem, shown
from rappor_core.grid.grid import PAIR_SEPARATOR
from rappor_core.reserved import RESERVED
from rappor_core.strict_json import parse_strict_json

_UNLISTED = "unlisted"  # the row of the cells that are not shown, in density.csv
_WHOLE = ("one_hot", "boolean")  # encodings of metrics whose values are all candidates
_BAD = (KeyError, TypeError, ValueError, IndexError, csv.Error)


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
        ReleaseError: neither is there, or a file cannot be used.
    """
    try:
        if (folder / "density.csv").is_file():
            return list(_density_tables(folder, strata or {}))
        if (folder / "flows.csv").is_file():
            return list(_flow_tables(folder, strata or {}))
        if (folder / "results.json").is_file():
            return [_decoding_table(folder, strata or {})]
    except (OSError, UnicodeDecodeError) as error:
        raise ReleaseError(f"{folder}: {file_problem(error)}") from None
    except RapporError as error:
        raise ReleaseError(f"{folder}: {error}") from None
    except _BAD as error:
        raise ReleaseError(f"{folder}: a file of it cannot be used: {shown(error)}") from None
    raise ReleaseError(
        f"{folder} holds neither results.json of rappor decode -o, density.csv of rappor density "
        "-o, nor flows.csv of rappor flows -o"
    )


def _decoding_table(folder: Path, strata: Mapping[str, str]) -> CellTable:
    """results.json and manifest.json tell what it is; candidates.csv has the numbers."""
    found = parse_strict_json((folder / "results.json").read_bytes())
    made = parse_strict_json((folder / "manifest.json").read_bytes())
    if made["metric"] != found["metric"]:
        raise ReleaseError("results.json and manifest.json are of two metrics")
    if made["first_day"] is None or made["last_day"] is None:
        raise ReleaseError(
            "the decoding does not say its days, so that it cannot be told whether they are "
            "sealed; decode an aggregate that was fetched by days"
        )
    rows = [row for row in _rows(folder / "candidates.csv") if not row["same_bits_as"]]
    seen = np.array([row["detected"] == "true" for row in rows], dtype=bool)
    direct = found["diagnostics"]["method"] == "direct"

    def pick(of_seen: str, of_rest: str) -> Floats:
        names = (of_seen if flag else of_rest for flag in seen.tolist())
        return np.array([float(row[name]) for row, name in zip(rows, names, strict=True)])

    low, high = (pick(f"selected_{end}", end).clip(0, 1) for end in ("low", "high"))
    return CellTable(
        metric=found["metric"],
        strata=stratum_key(strata),
        first_day=date.fromisoformat(made["first_day"]),
        last_day=date.fromisoformat(made["last_day"]),
        num_reports=int(found["summary"]["num_reports"]),
        cells=[row["value"] for row in rows],
        estimate=pick("shrunken", "estimate"),
        std_error=pick("std_error", "std_error"),
        low=np.minimum(low, high),
        high=high,
        detected=seen,
        complete=direct and made["params"]["encoding"] in _WHOLE,
        level=float(made["level"]),
        max_correlation=0.0 if direct else 1.0,
        listed=direct,
        unbiased=pick("estimate", "estimate"),
    )


def _density_tables(folder: Path, strata: Mapping[str, str]) -> Iterator[CellTable]:
    shapes = _shapes(folder / "density.geojson")
    groups: dict[tuple[str, str, str, str, str], list[dict[str, str]]] = {}
    for row in _rows(folder / "density.csv"):
        key = row["metric"], row["slot"], row["first_day"], row["last_day"], row["reports"]
        groups.setdefault(key, []).append(row)
    for (metric, slot, first, last, reports), rows in groups.items():
        if not first or not last:
            raise ReleaseError("the map does not say its days; make it of aggregates that do")
        known = [row for row in rows if row["estimate"]]
        if any(row["cell"] not in (_UNLISTED, *RESERVED) for row in rows if not row["estimate"]):
            raise ReleaseError("density.csv has a cell without an estimate")
        numbers: dict[str, Any] = {
            name: np.array([float(row[name]) for row in known]) for name in _NUMBERS
        }
        yield CellTable(
            metric=metric,
            strata=stratum_key({"slot": slot, **strata}),
            first_day=date.fromisoformat(first),
            last_day=date.fromisoformat(last),
            num_reports=int(reports),
            cells=[row["cell"] for row in known],
            detected=np.array([row["detected"] == "true" for row in known], dtype=bool),
            complete=len(known) == len(rows),
            shapes=shapes,
            **numbers,
        )


def _flow_tables(folder: Path, strata: Mapping[str, str]) -> Iterator[CellTable]:
    """Pairs of zones, then pairs of cells: two tables of the same people, each pair of zones the
    sum of the pairs of their cells."""
    found = parse_strict_json((folder / "results.json").read_bytes())
    if found["flow"]["lag"]:
        raise ReleaseError("a metric of moves tells how many moved and how far, and has no matrix")
    if found["first_day"] is None or found["last_day"] is None:
        raise ReleaseError("the flows do not say their days; make them of aggregates that do")
    if PARTITION in strata:
        raise ReleaseError(f"the stratum {PARTITION!r} of flows is zones or cells; name another")
    zone_of = {row["cell"]: row["zone"] for row in found["cells"]}
    flows = list(_rows(folder / "flows.csv"))
    detected = [row | {"detected": row["detected"] == "true"} for row in flows]
    members: dict[str, list[str]] = {}
    for row in flows:
        zones = PAIR_SEPARATOR.join(zone_of[row[side]] for side in _SIDES)
        members.setdefault(zones, []).append(_pair(row))
    held = {zones: tuple(pairs) for zones, pairs in members.items()}
    for name, rows, several in (("zones", found["zones"], held), ("cells", detected, {})):
        numbers: dict[str, Any] = {
            column: np.array([float(row[column]) for row in rows]) for column in _NUMBERS
        }
        yield CellTable(
            metric=found["metric"],
            strata=stratum_key({PARTITION: name, **strata}),
            first_day=date.fromisoformat(found["first_day"]),
            last_day=date.fromisoformat(found["last_day"]),
            num_reports=int(found["num_reports"]),
            cells=[_pair(row) for row in rows],
            detected=np.array([row["detected"] for row in rows], dtype=bool),
            complete=True,
            level=float(found["level"]),
            members=several,
            **numbers,
        )


def _pair(row: Mapping[str, Any]) -> str:
    return PAIR_SEPARATOR.join(str(row[side]) for side in _SIDES)


_SIDES = ("origin", "destination")
_NUMBERS = ("estimate", "std_error", "low", "high")


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as lines:
        yield from csv.DictReader(lines, strict=True)


def _shapes(path: Path) -> dict[str, Any]:
    """Outline by cell; none for a map of pairs."""
    if not path.is_file():
        return {}
    features = json.loads(path.read_text(encoding="utf-8"))["features"]
    return {one["properties"]["cell"]: one["geometry"] for one in features}
