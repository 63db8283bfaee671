"""Files of a decoding: results.csv, candidates.csv, results.json, manifest.json, report.html.

Nothing in them depends on the clock or the machine: the same input gives the same bytes.
"""

from __future__ import annotations

import csv
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from decoder.files import finite, write_files, write_json
from decoder.output.decoding_view import MOST_MARKS, decoding_view
from decoder.output.jinja import page_template
from decoder.output.number_text import days
from decoder.output.tables import TableQuery, page_of
from decoder.progress import Progress, silent
from decoder.results.tables import NOTES, Decoding
from rappor_core.params import RapporParams

RESULT_COLUMNS = (
    "string",
    "estimate",
    "std_error",
    "proportion",
    "prop_std_error",
    "prop_low_95",
    "prop_high_95",
    "p_value",
    "p_adjusted",
)
MARK = "results.json"  # by which a folder is known as one of decodings
OUTPUTS = ("results.csv", "candidates.csv", MARK, "manifest.json", "report.html")
_LIBRARIES = ("rappor-telemetry", "numpy", "scipy", "scikit-learn", "numba")


def write_outputs(
    decoding: Decoding, directory: str | Path, progress: Progress = silent
) -> tuple[Path, ...]:
    """Write all files of a decoding into a directory, made if needed; returns their paths.

    Each is written whole or not at all. Raises OutputError.
    """
    found, source = results(decoding), manifest(decoding)
    page = partial(_page, found, source)
    files: dict[str, Callable[[Path], object]] = {
        "results.csv": partial(write_results_csv, decoding),
        "candidates.csv": partial(write_candidates_csv, decoding),
        "results.json": partial(write_json, found),
        "manifest.json": partial(write_json, source),
        "report.html": lambda path: path.write_text(page(), encoding="utf-8"),
    }
    return write_files(directory, files, progress)


def render_report(decoding: Decoding) -> str:
    """Render report.html: one page, self-contained, that can be shown to a customer."""
    return _page(results(decoding), manifest(decoding))


def _page(found: dict[str, Any], source: dict[str, Any]) -> str:
    """report.html. found, source: contents of results.json and manifest.json."""
    table = page_of(found["detected"], "value", TableQuery(rows=MOST_MARKS))
    first, last = source["first_day"], source["last_day"]
    return page_template("report.html.j2").render(
        source=source,
        params=RapporParams.from_dict(source["params"]),
        description=source["definition"].get("description"),
        window=days(first, last) if first and last else None,
        query=None,
        own=False,
        **decoding_view(found, source, table),
    )


def write_results_csv(decoding: Decoding, path: Path) -> None:
    """The detected values, largest first: google/rappor's seven columns, then the p-values.

    `estimate` and `std_error` are numbers of reports; `proportion` is the shrunken share and the
    interval the one after selection, at the decoding's level (95 % by default).
    """
    total = decoding.summary.num_reports
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(RESULT_COLUMNS)
        for row in decoding.detected:
            writer.writerow(
                (
                    row.value,
                    repr(row.share * total),
                    repr(row.std_error * total),
                    repr(row.share),
                    repr(row.std_error),
                    repr(row.low),
                    repr(row.high),
                    repr(row.p_value),
                    repr(row.p_adjusted),
                )
            )


def write_candidates_csv(decoding: Decoding, path: Path) -> None:
    """Write every candidate, in the order of the list; shares in [0, 1], seven significant
    digits."""
    table = decoding.candidates
    numbers = ("estimate", "std_error", "low", "high", "shrunken", "z", "local_fdr")
    columns: dict[str, Any] = {"value": pa.array(table.values, pa.string())}
    columns |= {name: pa.array(getattr(table, name).astype(np.float32)) for name in numbers}
    columns |= {name: pa.array(getattr(table, name)) for name in ("p_value", "p_adjusted")}
    if table.weight is not None:
        columns["weight"] = pa.array(table.weight)
    columns["detected"] = pa.array(table.detected)
    for name in ("selected_low", "selected_high"):
        values = getattr(table, name).astype(np.float32)
        columns[name] = pa.array(values, mask=np.isnan(values))
    columns["same_bits_as"] = _same_bits_as(decoding)
    for name in ("forged", "forged_low", "forged_shift"):
        values = getattr(table, name).astype(np.float32)
        columns[name] = pa.array(values, mask=np.isnan(values))
    columns["note"] = pa.DictionaryArray.from_arrays(table.note, list(NOTES)).cast(pa.string())
    with path.open("wb") as file:
        arrow_csv.write_csv(pa.table(columns), file)


def _same_bits_as(decoding: Decoding) -> Any:
    """The first candidate with the same bits, where that is another one."""
    table, total = decoding.candidates, len(decoding.candidates.values)
    others = np.flatnonzero(table.group != np.arange(total))
    names = dict(zip(others.tolist(), (table.values[i] for i in table.group[others]), strict=True))
    if not names:
        return pa.nulls(total, pa.string())
    return pa.array([names.get(i) for i in range(total)], pa.string())


def results(decoding: Decoding) -> dict[str, Any]:
    """The contents of results.json: values found, summary, diagnostics, warnings (NaN and
    infinity as null)."""
    content = {
        "metric": decoding.metric,
        "summary": asdict(decoding.summary),
        "diagnostics": asdict(decoding.diagnostics)
        | {"cohort_z": decoding.diagnostics.cohort_z.tolist()},
        "warnings": list(decoding.warnings),
        "reason": decoding.reason,
        "candidates_read": decoding.notes,
        "detected": [asdict(row) for row in decoding.detected],
    }
    return {name: finite(value) for name, value in content.items()}


def manifest(decoding: Decoding) -> dict[str, Any]:
    """The contents of manifest.json: inputs, method, rule and versions, by which the decoding
    can be repeated."""
    summary, options = decoding.summary, decoding.options
    return {
        "metric": decoding.metric,
        "params_id": decoding.params_id,
        "params": decoding.params.to_dict(),
        "definition": dict(decoding.definition),
        "epsilon_infinity": summary.epsilon_infinity,
        "epsilon_one": summary.epsilon_one,
        "first_day": decoding.first_day and decoding.first_day.isoformat(),
        "last_day": decoding.last_day and decoding.last_day.isoformat(),
        "num_reports": summary.num_reports,
        "num_candidates": summary.num_candidates,
        "candidates_sha256": _digest(decoding.candidates.values),
        "method": decoding.diagnostics.method,
        "full_fit": options.full_fit,
        "without_cohorts": list(options.without_cohorts),
        "correction": options.correction,
        "alpha": options.alpha,
        "level": options.level,
        "largest_p": options.largest_p,
        "weights": _weights(decoding),
        "repeats": summary.repetition,
        "target": "population: the interval allows for the reporters being a sample of it",
        "versions": {name: _version(name) for name in _LIBRARIES}
        | {"python": platform.python_version()},
    }


def _weights(decoding: Decoding) -> dict[str, Any] | None:
    """The weights declared: their digest, and the least and largest of a candidate (1: even)."""
    weights, table = decoding.options.weights, decoding.candidates
    if weights is None or table.weight is None:
        return None
    least, most = float(table.weight.min()), float(table.weight.max())
    return {"sha256": weights.digest, "least": least, "most": most}


def _digest(values: Sequence[str]) -> str:
    """SHA-256 of the distinct candidates in their order, one a line, UTF-8."""
    digest = sha256()
    for value in values:
        digest.update(f"{value}\n".encode())
    return digest.hexdigest()


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "not installed: run from its source tree"
