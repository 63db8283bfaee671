"""Files of a series: series.csv, changes.csv and series.html, a picture for each value."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from decoder.files import make_folder, replacing
from decoder.reports.decoding_html import p_text
from decoder.reports.jinja import page_template
from decoder.reports.svg import Tick, axis_step, tick_text
from decoder.results.tables import short
from decoder.results.warnings import percent
from decoder.series.series import Series

SERIES_COLUMNS = ("first_day", "last_day", "reports", "string", "proportion", "std_error")
CHANGE_COLUMNS = ("from", "to", "string", "difference", "std_error", "p_value", "p_adjusted")
SHOWN = 24  # panels; series.csv has all
LONGEST = 120  # letters of a value on the page
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 420, 170, 56, 12, 26


@dataclass(frozen=True)
class Panel:
    """The line of one value; coordinates in pixels, `band` and `line` as SVG point lists."""

    value: str
    band: str
    line: str
    points: tuple[tuple[float, float], ...]
    ticks: tuple[Tick, ...]
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
    """The page as text: one panel a value, largest first."""
    page = page_template("series.html.j2", trim=False, p_text=p_text, percent=percent)
    return page.render(
        series=series,
        panels=[_panel(series, i) for i in range(min(len(series.values), SHOWN))],
        names=[_name(window) for window in series.windows],
        ends=(series.windows[0][0], series.windows[-1][1]),
        size=(WIDTH, HEIGHT, LEFT, TOP, BOTTOM),
    )


def series_rows(series: Series) -> list[dict[str, object]]:
    """The rows of series.csv as plain values."""
    header = (*SERIES_COLUMNS, "low", "high")
    return [dict(zip(header, row, strict=True)) for row in _series_rows(series)]


def _panel(series: Series, value: int) -> Panel:
    low, high = series.low[:, value].tolist(), series.high[:, value].tolist()
    step, top = axis_step(max(*high, 1e-6), most=4)
    scale = (HEIGHT - TOP - BOTTOM) / top
    columns = [_column(number, len(series.windows)) for number in range(len(series.windows))]

    def at(share: float) -> float:
        return round(HEIGHT - BOTTOM - min(max(share, 0.0), top) * scale, 2)

    shares = series.shares[:, value].tolist()
    points = tuple((x, at(share)) for x, share in zip(columns, shares, strict=True))
    upper = [(x, at(end)) for x, end in zip(columns, high, strict=True)]
    lower = [(x, at(end)) for x, end in zip(columns, low, strict=True)]
    changes = [float(change.p_adjusted[value]) for change in series.changes]
    return Panel(
        short(series.values[value], LONGEST),
        _points(upper + lower[::-1]),
        _points(points),
        points,
        tuple(Tick(at(i * step), tick_text(i * step, step)) for i in range(round(top / step) + 1)),
        min(changes, default=None),
    )


def _column(number: int, total: int) -> float:
    return round(LEFT + (number + 0.5) * (WIDTH - LEFT - 10) / total, 2)


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x},{y}" for x, y in points)


def _name(window: tuple[object, object]) -> str:
    first, last = window
    return "?" if first is None else str(first) if first == last else f"{first} to {last}"


def _series_rows(series: Series) -> Iterable[Sequence[object]]:
    for w, ((first, last), reports) in enumerate(zip(series.windows, series.reports, strict=True)):
        for i, value in enumerate(series.values):
            numbers = (series.shares, series.std_errors, series.low, series.high)
            yield (first, last, reports, value, *(float(x[w, i]) for x in numbers))


def _change_rows(series: Series) -> Iterable[Sequence[object]]:
    for change in series.changes:
        ends = _name(series.windows[change.first]), _name(series.windows[change.second])
        for i, value in enumerate(series.values):
            numbers = (change.difference, change.std_error, change.p_value, change.p_adjusted)
            yield (*ends, value, *(float(x[i]) for x in numbers))


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with replacing(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
