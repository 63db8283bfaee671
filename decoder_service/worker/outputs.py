"""Files that the service adds to those of the workflows, and the summary of a result."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from decoder.comparison.differences import Differences
from decoder.comparison.windows import ShareChange
from decoder.density.maps import Density
from decoder.discovery.discovery import Discovery
from decoder.files import finite
from decoder.output.decoding_files import results
from decoder.output.density_html import map_data
from decoder.output.discovery_text import statement
from decoder.output.series_files import series_rows
from decoder.results.tables import Decoding
from decoder.series.series import Series
from decoder.workflows.kinds import SERIES_COLUMNS, DecoderKind
from decoder.workflows.maps import Maps

MOST_SHOWN = 20  # values in a summary
COMPARE_COLUMNS = (
    "string",
    "before",
    "after",
    "difference",
    "std_error",
    "low",
    "high",
    "p_value",
    "p_adjusted",
)

_TYPES = {"reports": pa.int64(), **dict.fromkeys(("first_day", "last_day", "string"), pa.string())}
_SERIES = pa.schema([(name, _TYPES.get(name, pa.float64())) for name in SERIES_COLUMNS])


def write_decoding(decoding: Decoding, folder: Path) -> dict[str, Any]:
    """Add candidates.parquet; the summary."""
    with (folder / "candidates.csv").open("rb") as file:
        table = arrow_csv.read_csv(
            file,
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(  # text is quoted there, a null is not
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                column_types={
                    "value": pa.string(),
                    "same_bits_as": pa.string(),
                    "weight": pa.float64(),  # there where the job has weights
                },
            ),
        )
    parquet.write_table(table, folder / "candidates.parquet")
    return _summary(decoding)


def write_series_json(series: Series, folder: Path) -> dict[str, Any]:
    """Add series.json and series.parquet; the summary."""
    rows = [row | _days(row) for row in series_rows(series)]
    changes = [row for change in series.changes for row in _change_rows(series, change)]
    _write_json({"rows": rows, "changes": changes}, folder / "series.json")
    parquet.write_table(pa.Table.from_pylist(rows), folder / "series.parquet")
    return _summary(series.whole) | {"windows": _windows(series)}


def write_kind_series(kind: DecoderKind, content: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Add series.json, series.csv and series.parquet of a kind's own series; the summary.

    They have the columns of any series. Means, which are no shares, are beside them in series.json.
    content: results.json of a series.
    """
    found = kind.series(content)
    _write_json(
        {"rows": found.rows, "changes": found.changes, "means": found.means, "unit": found.unit},
        folder / "series.json",
    )
    with (folder / "series.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, SERIES_COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(found.rows)
    parquet.write_table(pa.Table.from_pylist(found.rows, _SERIES), folder / "series.parquet")
    return kind.summary(content) | {"metric_kind": kind.name, "windows": found.windows}


def write_comparison(series: Series, folder: Path) -> dict[str, Any]:
    """Add compare.csv, compare.json and compare.parquet; the summary.

    A difference has its own interval and p-value, corrected over the values.
    """
    rows = _change_rows(series, series.changes[0])
    with (folder / "compare.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COMPARE_COLUMNS, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    content = {"windows": _windows(series), "rows": rows}
    _write_json(content, folder / "compare.json")
    parquet.write_table(pa.Table.from_pylist(rows), folder / "compare.parquet")
    changed = sorted(rows, key=lambda row: (row["p_adjusted"], -abs(row["difference"])))
    return {
        **_summary(series.whole),
        "windows": _windows(series),
        "changes": finite(changed[:MOST_SHOWN]),
    }


def write_maps_json(maps: Maps, folder: Path, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Add density.json, with what changed between windows, and map.json; the summary.

    map.json is what the page of the service draws; there is none of pairs of places.
    """
    listed = [_map(one) for one in maps.densities]
    pairs = maps.densities[0].places.pairs
    found = {slot: (one.cells, one.since_first) for slot, one in maps.last().items()}
    changes = {slot: _moved(cells, one) for slot, (cells, one) in found.items() if one}
    _write_json({"maps": listed, "changes": changes}, folder / "density.json")
    if not pairs:
        drawn = map_data(maps.densities, maps.points, notes, maps.base)
        text = json.dumps(drawn, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        (folder / "map.json").write_text(text, encoding="utf-8")
    slots = list(dict.fromkeys(one["slot"] for one in listed))
    reports = sum(one["num_reports"] for one in listed)
    warnings = [text for one in listed for text in one["warnings"]]
    return {
        "num_maps": len(listed),
        "num_cells": maps.densities[0].num_cells,
        "num_reports": reports,
        "slots": slots,
        "warnings": list(dict.fromkeys(warnings))[:MOST_SHOWN],
    }


def discovery_summary(found: Discovery) -> dict[str, Any]:
    """Of a discovery: how many strings, but none of them: devices chose this text."""
    return {
        "num_reports": found.num_reports,
        "num_found": len(found.found),
        "num_tested": found.num_tested,
        "num_below_crowd": found.num_below_crowd,
        "half_found": found.half_found,
        "statement": list(statement(found)),
        "warnings": [],
    }


def _summary(decoding: Decoding) -> dict[str, Any]:
    found = results(decoding)
    keys = ("value", "share", "std_error", "low", "high", "p_value", "p_adjusted")
    top = [{key: row[key] for key in keys} for row in found["detected"][:MOST_SHOWN]]
    numbers = ("num_candidates", "num_detected", "num_reports", "visible_share")
    return {
        **{name: found["summary"][name] for name in numbers},
        "warnings": found["warnings"],
        "reason": found["reason"],
        "top": top,
    }


def _windows(series: Series) -> list[dict[str, Any]]:
    return [
        {"first_day": str(first), "last_day": str(last), "reports": reports}
        for (first, last), reports in zip(series.windows, series.reports, strict=True)
    ]


def _change_rows(series: Series, change: ShareChange) -> list[dict[str, Any]]:
    low, high = change.interval(series.whole.options.level)
    columns = {
        "before": series.shares[change.first],
        "after": series.shares[change.second],
        "difference": change.difference,
        "std_error": change.std_error,
        "low": low,
        "high": high,
        "p_value": change.p_value,
        "p_adjusted": change.p_adjusted,
    }
    return [
        {"first": change.first, "second": change.second, "string": value}
        | {name: float(column[i]) for name, column in columns.items()}
        for i, value in enumerate(series.values)
    ]


def _days(row: dict[str, object]) -> dict[str, str]:
    return {name: str(row[name]) for name in ("first_day", "last_day")}


def _map(one: Density) -> dict[str, Any]:
    return {
        "slot": one.location.slot,
        "first_day": str(one.first_day) if one.first_day else None,
        "last_day": str(one.last_day) if one.last_day else None,
        "num_reports": one.num_reports,
        "floor": one.floor,
        "unlisted": one.unlisted,
        "source": one.source,
        "check": asdict(one.check) if one.check else None,
        "warnings": list(one.warnings),
    }


def _moved(cells: Sequence[str], change: Differences) -> dict[str, Any]:
    """From the first window of a slot to its last."""
    return {"cells": list(cells), **{name: part.tolist() for name, part in vars(change).items()}}


def _write_json(content: dict[str, Any], path: Path) -> None:
    text = json.dumps(finite(content), indent=1, ensure_ascii=False, allow_nan=False, default=str)
    path.write_text(text + "\n", encoding="utf-8")
