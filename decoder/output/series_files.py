"""Files of a series: series.csv, changes.csv and series.html, a picture for each value."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from decoder.comparison.windows import ShareChange
from decoder.files import finite, make_folder, replacing
from decoder.output.jinja import page_template
from decoder.output.number_text import days
from decoder.output.series_view import series_view
from decoder.output.tables import TableQuery
from decoder.series.series import Series

SERIES_COLUMNS = ("first_day", "last_day", "reports", "string", "proportion", "std_error")
CHANGE_COLUMNS = ("from", "to", "string", "difference", "std_error", "p_value", "p_adjusted")


def write_series(series: Series, directory: str | Path) -> tuple[Path, ...]:
    """Write the files into a directory, made if needed; returns their paths. Raises OutputError."""
    folder = Path(directory)
    make_folder(folder)
    paths = tuple(folder / name for name in ("series.csv", "changes.csv", "series.html"))
    _write(paths[0], (*SERIES_COLUMNS, "low", "high"), _series_rows(series))
    _write(paths[1], CHANGE_COLUMNS, _change_rows(series))
    with replacing(paths[2]) as part:
        part.write_text(render_series(series), encoding="utf-8")
    return paths


def render_series(series: Series) -> str:
    """The page as text: one panel a value, largest first, then the reports."""
    summary = {"warnings": series.whole.warnings, "reason": series.whole.reason}
    return page_template("series.html.j2").render(
        metric=series.whole.metric,
        summary=summary,
        query=None,
        **series_view(finite(series_content(series)), TableQuery()),
    )


def series_content(series: Series) -> dict[str, Any]:
    """The content of series.json: windows, the rows of series.csv, and all changes with their
    intervals."""
    options = series.whole.options
    return {
        "windows": windows_of(series),
        "level": options.level,
        "alpha": options.alpha,
        "rows": [row | _days(row["first_day"], row["last_day"]) for row in series_rows(series)],
        "changes": [row for change in series.changes for row in change_rows(series, change)],
    }


def windows_of(series: Series) -> list[dict[str, Any]]:
    """First day, last day and reports of each window."""
    return [_days(*window) | {"reports": reports}
            for window, reports in zip(series.windows, series.reports, strict=True)]  # fmt: skip


def change_rows(series: Series, change: ShareChange) -> list[dict[str, Any]]:
    """The change of each value between two windows, with its interval."""
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


def series_rows(series: Series) -> list[dict[str, Any]]:
    """The rows of series.csv as plain values."""
    header = (*SERIES_COLUMNS, "low", "high")
    return [dict(zip(header, row, strict=True)) for row in _series_rows(series)]


def _days(first: date | None, last: date | None) -> dict[str, Any]:
    """Days for JSON. A window of a series has them: windows without days are not added up."""
    return {"first_day": str(first), "last_day": str(last)}


def _series_rows(series: Series) -> Iterable[Sequence[object]]:
    for w, ((first, last), reports) in enumerate(zip(series.windows, series.reports, strict=True)):
        for i, value in enumerate(series.values):
            numbers = (series.shares, series.std_errors, series.low, series.high)
            yield (first, last, reports, value, *(float(x[w, i]) for x in numbers))


def _change_rows(series: Series) -> Iterable[Sequence[object]]:
    for change in series.changes:
        ends = days(*series.windows[change.first]), days(*series.windows[change.second])
        for i, value in enumerate(series.values):
            numbers = (change.difference, change.std_error, change.p_value, change.p_adjusted)
            yield (*ends, value, *(float(x[i]) for x in numbers))


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with replacing(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
