"""Files of a series: series.csv, changes.csv and series.html, a picture for each value."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from decoder.files import make_folder, replacing
from decoder.output.jinja import page_template
from decoder.output.number_text import days
from decoder.output.svg import TimePlot, count_plot, share_plot
from decoder.results.tables import short
from decoder.series.series import Series

SERIES_COLUMNS = ("first_day", "last_day", "reports", "string", "proportion", "std_error")
CHANGE_COLUMNS = ("from", "to", "string", "difference", "std_error", "p_value", "p_adjusted")
SHOWN = 24  # panels; series.csv has all
LONGEST = 120  # letters of a value on the page


@dataclass(frozen=True)
class Panel:
    """The picture and table of one value; shares, low and high one a window."""

    value: str
    plot: TimePlot
    shares: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    smallest_p: float | None


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
    return page_template("series.html.j2").render(
        series=series,
        panels=[_panel(series, i) for i in range(min(len(series.values), SHOWN))],
        names=[days(*window) for window in series.windows],
        ends=(series.windows[0][0], series.windows[-1][1]),
        volume=count_plot(series.reports),
    )


def series_rows(series: Series) -> list[dict[str, object]]:
    """The rows of series.csv as plain values."""
    header = (*SERIES_COLUMNS, "low", "high")
    return [dict(zip(header, row, strict=True)) for row in _series_rows(series)]


def _panel(series: Series, value: int) -> Panel:
    shares, low, high = (
        tuple(part[:, value].tolist()) for part in (series.shares, series.low, series.high)
    )
    return Panel(
        value=short(series.values[value], LONGEST),
        plot=share_plot(list(zip(shares, low, high, strict=True))),
        shares=shares,
        low=low,
        high=high,
        smallest_p=min(
            (float(change.p_adjusted[value]) for change in series.changes), default=None
        ),
    )


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
