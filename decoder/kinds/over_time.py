"""Series of windows, and comparisons (series of two windows), for all kinds.

A quantity is a value, an edge of a number metric or a distance band; `string` names it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from decoder.comparison.differences import WindowChange
from decoder.decoded_window import DecodedWindow
from decoder.files import finite
from decoder.kinds.result import PageParts, Result, StoredResult
from decoder.options import DecodeOptions
from decoder.output.charts import Axis, Tick, axis_step, tick_text
from decoder.output.series_view import (
    latest,
    series_view,
    shares_of,
    smallest_p,
    windows_between,
)
from decoder.tables.format import days
from decoder.tables.paging import TableQuery, page_of
from decoder.tables.table import SHARE_INTERVAL, Column, ColumnType, Table, TableSchema, to_csv
from rappor_core.aggregate import Aggregate
from rappor_core.text import counted

_TEXT, _SHARE, _DAY = ColumnType.TEXT, ColumnType.SHARE, ColumnType.DAY
_QUANTITY = Column("string", _TEXT, "The value, edge or band.", "value", shown=True)
_P_VALUE = Column("p_value", ColumnType.P_VALUE, "P-value of the test that nothing changed.")
_P_ADJUSTED = Column("p_adjusted", ColumnType.P_VALUE,
                     "The same, corrected for all quantities and pairs of windows.",
                     "corrected p", shown=True)  # fmt: skip
SERIES = TableSchema(
    "series",
    "Shares in each window",
    (
        Column("first_day", _DAY, "First day of the window."),
        Column("last_day", _DAY, "Last day of the window.", "window", shown=True),
        Column("reports", ColumnType.INTEGER, "Reports of the window."),
        _QUANTITY,
        Column("proportion", _SHARE, "Unbiased share of the reports.", "share", shown=True),
        *SHARE_INTERVAL,
    ),
)


def difference_columns(kind: ColumnType) -> tuple[Column, ...]:
    """Return the columns for a difference, its interval and its test."""
    return (
        Column("difference", kind, "Later minus earlier.", "change", shown=True),
        Column("std_error", kind, "Standard error of the difference."),
        Column("low", kind, "Lower end of the interval of the decision.", shown=True),
        Column("high", kind, "Upper end of the interval of the decision.", shown=True),
        _P_VALUE,
        _P_ADJUSTED,
    )


CHANGES = TableSchema(
    "changes",
    "Changes between windows",
    (
        Column("from", _TEXT, "Days of the earlier window.", shown=True),
        Column("to", _TEXT, "Days of the later window.", shown=True),
        _QUANTITY,
        *difference_columns(ColumnType.NUMBER),
    ),
)
COMPARISON = TableSchema(
    "compare",
    "Difference of two windows",
    (
        _QUANTITY,
        Column("before", _SHARE, "Share in the earlier window.", shown=True),
        Column("after", _SHARE, "Share in the later window.", shown=True),
        *difference_columns(ColumnType.POINTS),
    ),
)
TREND = TableSchema(
    "trend",
    "Shares in the first and the last window",
    (
        _QUANTITY,
        Column("first", _SHARE, "Share in the first window.", shown=True),
        Column("last", _SHARE, "Share in the last window.", shown=True),
        Column("smallest_p", ColumnType.P_VALUE, "Smallest corrected p-value of a change.",
               "smallest p of a change", shown=True),
    ),
)  # fmt: skip
MAX_LISTED = 20  # the maximum number of changes in a summary
MAX_MARKS = 200  # the maximum number of differences in a picture
MORE, LESS, UNCHANGED = "More", "Less", "No change detected"


@dataclass(frozen=True)
class SeriesFound:
    """A kind's estimates for several windows, oldest first."""

    windows: Sequence[Aggregate | DecodedWindow]
    quantities: Sequence[str]
    # By window: columns `proportion`, `std_error`, `low`, `high`, one row per quantity
    shares: Sequence[Sequence[Any]]
    changes: Sequence[WindowChange]
    means: Sequence[Mapping[str, Any]] = ()  # By window: the days, the median and the mean
    unit: str = ""  # The unit of the means


def days_of(window: Aggregate | DecodedWindow) -> dict[str, str]:
    """Return the first and last day of a window as text."""
    return {"first_day": str(window.first_day), "last_day": str(window.last_day)}


def series_result(whole: Result, series: SeriesFound, options: DecodeOptions) -> Result:
    """Return the result of a series, which extends the result for all windows together."""
    windows: list[dict[str, Any]] = [
        days_of(item) | {"reports": item.num_reports} for item in series.windows
    ]
    rows = [
        window | dict(zip(SERIES.names[3:], (quantity, *map(float, numbers)), strict=True))
        for window, columns in zip(windows, series.shares, strict=True)
        for quantity, *numbers in zip(series.quantities, *columns, strict=True)
    ]
    changes: list[dict[str, Any]] = [
        {"first": change.first, "second": change.second, "string": quantity}
        | {name: float(getattr(change.rows, name)[i]) for name in CHANGES.names[3:]}
        for change in series.changes
        for i, quantity in enumerate(change.quantities)
    ]
    ends = [days(item["first_day"], item["last_day"]) for item in windows]
    changed = [row | {"from": ends[row["first"]], "to": ends[row["second"]]} for row in changes]
    surest = sorted(changed, key=lambda row: row["p_adjusted"])
    content: dict[str, Any] = {
        "metric": whole.content["metric"],
        "windows": windows,
        "level": options.level,
        "alpha": options.alpha,
        "rows": rows,
        "changes": changes,
        "means": series.means,
        "unit": series.unit,
        "warnings": whole.content["warnings"],
        "reason": whole.content.get("reason"),
        "whole": whole.content,
    }
    content = finite(content)
    return Result(
        content,
        whole.summary | {"windows": content["windows"], "latest": latest(content)},
        (_series_table(rows), CHANGES.of_records(changed), *whole.tables),
        manifest=whole.manifest,
        notes=whole.notes,
        files=whole.files,
        printed=(_trend(content), CHANGES.of_records(surest)),
    )


def _series_table(rows: Sequence[dict[str, Any]]) -> Table:
    return SERIES.of_records(
        [row | {name: date.fromisoformat(row[name]) for name in SERIES.names[:2]} for row in rows]
    )


def _trend(content: Mapping[str, Any]) -> Table:
    by_value, smallest = shares_of(content), smallest_p(content)
    values, windows = counted(len(by_value), "value"), counted(len(content["windows"]), "window")
    rows = [
        (name, *(end and end[0] for end in (shares[0], shares[-1])), smallest.get(name))
        for name, shares in by_value.items()
    ]
    return TREND.of_rows(rows, f"{content['metric']}: {values} in {windows}")


def _surest(row: Mapping[str, Any]) -> tuple[float, float]:
    return row["p_adjusted"], -abs(row["difference"])


def comparison(series: Result) -> Result:
    """Convert the result of a series of two windows to the result of a comparison."""
    document, shares = series.content, shares_of(series.content)
    rows = []
    for row in document["changes"]:
        if row["string"] in shares:
            ends = [end and end[0] for end in shares[row["string"]]]
            rows.append({"string": row["string"], "before": ends[0], "after": ends[1],
                         **{name: row[name] for name in COMPARISON.names[3:]}})  # fmt: skip
    named = ("metric", "windows", "level", "alpha", "warnings", "reason", "whole")
    content = {name: document[name] for name in named} | {"rows": rows}
    ranked = sorted(rows, key=_surest)
    summary = {name: value for name, value in series.summary.items() if name != "latest"}
    return Result(
        content,
        summary | {"changes": ranked[:MAX_LISTED]},
        (COMPARISON.of_records(rows), *series.tables[2:]),
        manifest=series.manifest,
        notes=series.notes,
        files=series.files,
        printed=(COMPARISON.of_records(ranked),),
    )


def _differences(rows: list[dict[str, Any]], query: TableQuery) -> dict[str, Any]:
    """Return one page of differences, with ticks and marks in percent of the picture's width."""
    groups = (MORE, LESS, UNCHANGED)
    rows.sort(key=lambda item: (groups.index(item["group"]), *_surest(item)))
    table = page_of(rows, "string", query)
    visible = table.rows if len(table.rows) <= MAX_MARKS else ()
    top = max((abs(row[end]) for row in visible for end in ("low", "high")), default=1.0) or 1.0
    step, end = axis_step(top, most=3)
    axis = Axis(-end, end, 0, 100)
    marks = tuple((axis.at(row["low"]), axis.at(row["difference"]), axis.at(row["high"]))
                  for row in visible)  # fmt: skip
    texts = [tick_text(share, step).removesuffix(" %") for share in (-end, 0, end)]
    ticks = (Tick(0, texts[0]), Tick(50, texts[1]), Tick(100, f"+{texts[2]}"))
    return {"table": table, "ticks": ticks, "marks": marks}


def series_page(stored: StoredResult, query: TableQuery) -> PageParts:
    """Return the page of a series: a panel for each quantity."""
    view = series_view(stored.json(), query)
    lead = f"{view['ends'][0]} to {view['ends'][1]}, {len(view['names'])} windows"
    return PageParts("result_series.html.j2", view, lead)


def comparison_page(stored: StoredResult, query: TableQuery) -> PageParts:
    """Return the page of a comparison, with the most certain changes first."""
    content = stored.json()
    alpha, windows = content["alpha"], content["windows"]
    rows = []
    for row in content["rows"]:
        group = MORE if row["difference"] > 0 else LESS
        rows.append(row | {"group": group if row["p_adjusted"] <= alpha else UNCHANGED})
    view = {
        "differences": _differences(rows, query),
        "changed": sum(1 for row in rows if row["group"] != UNCHANGED),
        "windows": windows,
        "alpha": alpha,
        "grouped": not query.sort,
        "unchanged": UNCHANGED,
        "warnings": content["warnings"],
        "reason": content["reason"],
    }
    before, after = (days(window["first_day"], window["last_day"]) for window in windows)
    return PageParts("result_compare.html.j2", view, f"{after} compared with {before}")


def chart_csv(content: Mapping[str, Any], values: Sequence[str], first: str, last: str) -> bytes:
    """Return the numbers of a chart as CSV, with the columns of series.csv.

    Args:
        content: The contents of results.json of a series.
        values: The values (or edges, or bands) that the chart shows.
        first: The ISO day of the first window, "" for no limit.
        last: The ISO day of the last window, "" for no limit.
    """
    ends = ("first_day", "last_day")
    chosen = {tuple(map(window.get, ends)) for _, window in windows_between(content, first, last)}
    rows = [row for row in content["rows"]
            if row["string"] in values and tuple(map(row.get, ends)) in chosen]  # fmt: skip
    return to_csv(_series_table(rows).to_arrow())
