"""Files of a metric of numbers: curve.csv, bins.csv, quantiles.csv, results.json, report.html.

Nothing in them depends on the clock or the machine: the same input gives the same bytes.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from decoder.files import finite, write_files
from decoder.numbers.changes import NumberSeries
from decoder.numbers.tables import NumberDecoding
from decoder.output.numbers_html import render_numbers

FILES = ("curve.csv", "bins.csv", "quantiles.csv", "results.json", "report.html")
CURVE_COLUMNS = ("edge", "at_or_above", "std_error", "low", "high", "band_low", "band_high",
                 "fitted", "reports")  # fmt: skip
BIN_COLUMNS = ("from", "to", "share", "std_error", "low", "high", "fitted")
QUANTILE_COLUMNS = ("share", "low", "high", "fitted")
CHANGE_COLUMNS = ("first_day", "last_day", "later_first_day", "later_last_day", "quantity",
                  "difference", "std_error", "low", "high", "p_value", "p_adjusted")  # fmt: skip


def write_numbers(
    decoding: NumberDecoding, directory: str | Path, series: NumberSeries | None = None
) -> tuple[Path, ...]:
    """Write all files into a directory, made if needed; returns their paths.

    series: of windows, for changes.csv, and its picture in the page.  Raises OutputError.
    """
    content = numbers_content(decoding, series)
    json_text = json.dumps(content, indent=2, allow_nan=False)
    page = partial(render_numbers, content, decoding, series)
    files: dict[str, Callable[[Path], object]] = {
        "curve.csv": partial(_write, CURVE_COLUMNS, _values(decoding.curve)),
        "bins.csv": partial(_write, BIN_COLUMNS, _values(decoding.bins)),
        "quantiles.csv": partial(_write, QUANTILE_COLUMNS, _values(decoding.quantiles)),
        "results.json": lambda path: path.write_text(json_text + "\n", encoding="utf-8"),
        "report.html": lambda path: path.write_text(page(), encoding="utf-8"),
    }
    if series is not None:
        rows = [tuple(row.values()) for row in change_rows(series)]
        files["changes.csv"] = partial(_write, CHANGE_COLUMNS, rows)
    return write_files(directory, files)


def numbers_content(decoding: NumberDecoding, series: NumberSeries | None = None) -> dict[str, Any]:
    """The contents of results.json for a metric of numbers, as plain values (NaN and infinity as
    null)."""
    content = {
        "metric": decoding.metric,
        "params_id": decoding.params_id,
        "first_day": decoding.first_day and decoding.first_day.isoformat(),
        "last_day": decoding.last_day and decoding.last_day.isoformat(),
        "num_reports": decoding.num_reports,
        "epsilon_infinity": decoding.params.epsilon_infinity,
        "epsilon_one": decoding.params.epsilon_one,
        "unit": decoding.number.unit,
        "of_period": decoding.number.of_period,
        "level": decoding.level,
        "alpha": decoding.alpha,
        "repetition": decoding.repetition,
        "kappa": decoding.kappa,
        "freedom": decoding.freedom,
        "with_data": decoding.with_data and asdict(decoding.with_data),
        "curve": [asdict(point) for point in decoding.curve],
        "bins": [asdict(one) for one in decoding.bins],
        "quantiles": [asdict(one) for one in decoding.quantiles],
        "mean": decoding.mean and asdict(decoding.mean),
        "warnings": list(decoding.warnings),
    }
    if series is not None:
        content["windows"] = [numbers_content(window) for window in series.windows]
        content["changes"] = change_rows(series)
    plain: dict[str, Any] = finite(content)
    return plain


def change_rows(series: NumberSeries) -> list[dict[str, Any]]:
    """The rows of changes.csv: one for each quantity of each pair of windows."""
    rows = []
    for change in series.changes:
        ends = [
            day and day.isoformat()
            for number in (change.first, change.second)
            for day in (series.windows[number].first_day, series.windows[number].last_day)
        ]
        for row in change.rows:
            values = (*ends, row.quantity, row.difference, row.std_error, row.low, row.high,
                      row.p_value, row.p_adjusted)  # fmt: skip
            rows.append(dict(zip(CHANGE_COLUMNS, values, strict=True)))
    return rows


def _values(rows: Iterable[Any]) -> list[tuple[Any, ...]]:
    return [tuple(asdict(row).values()) for row in rows]


def _write(columns: Sequence[str], rows: Iterable[Sequence[Any]], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(value) for value in row] for row in rows)


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else ""
    return "" if value is None else value
