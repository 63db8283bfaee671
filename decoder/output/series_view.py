"""The views of a series from results.json: panels by value, and a chart of several values.

The chart has one axis of days, and a linear or logarithmic axis of shares."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

from decoder.output.charts import (
    Axis,
    Corners,
    Frame,
    Mark,
    Plot,
    Shares,
    Tick,
    count_plot,
    line_with_bands,
    share_axis,
    share_plot,
)
from decoder.tables.format import days, short
from decoder.tables.paging import TableQuery

MAX_PANELS = 24  # the maximum on a page; series.csv has all values
LONGEST = 120  # maximum characters of a value on the page
MAX_LINES = 6  # each line has its own color and dash
SIZES = {
    "page": Frame(960, 360, left=64, right=792, top=14, bottom=326),
    "phone": Frame(480, 340, left=64, right=460, top=14, bottom=306),  # lines are named below
}
_NAMES = 168  # the space for line names at the right
_STEPS = (1, 2, 7, 14, 28, 91, 182, 364)  # days between two ticks
_LABEL_GAP = 16.0
_MAX_LABEL = 22  # maximum characters next to a line


@dataclass(frozen=True)
class ValuePanel:
    """A value over windows; None if it was not detected in a window."""

    value: str
    plot: Plot
    windows: tuple[Shares | None, ...]
    smallest_p: float | None  # The smallest corrected p-value of its changes


def series_view(content: Mapping[str, Any], query: TableQuery) -> dict[str, Any]:
    """Return the variables of `result_series.html.j2`.

    Args:
        content: The contents of results.json.
        query: The query, with a text that shown values must contain.
    """
    windows = content["windows"]
    word = query.q.casefold()
    names = dict.fromkeys(row["string"] for row in content["rows"])
    matching = [name for name in names if word in name.casefold()]
    return {
        "panels": value_panels(content, matching[:MAX_PANELS]),
        "matching": len(matching),
        "names": window_names(content),
        "ends": (windows[0]["first_day"], windows[-1]["last_day"]),
        "reports": window_reports(content),
        "volume": count_plot(window_reports(content)),
        "level": f"{100 * content['level']:g} %",
        "alpha": content["alpha"],
        "warnings": content["warnings"],
        "reason": content["reason"],
        "means": content["means"],
        "unit": content["unit"],
    }


def latest(content: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the value with the largest last share and its last change; None without values."""
    ranked = values_by_share(content)
    if not ranked:
        return None
    value, last = ranked[0], len(content["windows"]) - 1
    key = (value, last - 1, last)
    change: Mapping[str, Any] = next((row for row in content["changes"] if key ==
                   (row["string"], row.get("first"), row.get("second"))), {})  # fmt: skip
    names = ("difference", "low", "high", "p_adjusted")
    return {
        "string": value,
        "level": content["level"],
        "alpha": content["alpha"],
        "shares": [shares and shares[0] for shares in shares_of(content)[value]],
        "change": {name: change[name] for name in names if name in change},
    }


def window_names(content: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the days of each window, oldest first."""
    return tuple(days(window["first_day"], window["last_day"]) for window in content["windows"])


def window_reports(content: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the number of reports of each window, oldest first."""
    return tuple(int(window["reports"]) for window in content["windows"])


def value_panels(content: Mapping[str, Any], values: Sequence[str]) -> tuple[ValuePanel, ...]:
    """Return a panel for each of the given values."""
    by_value, smallest = shares_of(content), smallest_p(content)
    return tuple(value_panel(value, by_value[value], smallest.get(value)) for value in values)


def smallest_p(content: Mapping[str, Any]) -> dict[str, float]:
    """Return the smallest corrected p-value of a change for each tested value."""
    smallest: dict[str, float] = {}
    for change in content["changes"]:
        value = change["string"]
        smallest[value] = min(smallest.get(value, 1.0), change["p_adjusted"])
    return smallest


def value_panel(
    value: str,
    windows: Sequence[Shares | None],
    smallest_p: float | None = None,
) -> ValuePanel:
    """Return a panel of shares and intervals; arguments as in `ValuePanel`."""
    return ValuePanel(short(value, LONGEST), share_plot(windows), tuple(windows), smallest_p)


def shares_of(content: Mapping[str, Any]) -> dict[str, list[Shares | None]]:
    """Return share, low and high of each value in each window; None if absent."""
    number = {_ends(window): i for i, window in enumerate(content["windows"])}
    by_value: dict[str, list[Shares | None]] = {}
    for row in content["rows"]:
        shares = by_value.setdefault(row["string"], [None] * len(number))
        if row["proportion"] is not None:
            shares[number[_ends(row)]] = (row["proportion"], row["low"], row["high"])
    return by_value


def values_by_share(content: Mapping[str, Any]) -> list[str]:
    """Return the values of a series by their share in the last window, largest first."""
    by_value = shares_of(content)
    return sorted(by_value, key=lambda value: -(by_value[value][-1] or (-1.0,))[0])


def windows_between(
    content: Mapping[str, Any], first: str, last: str
) -> list[tuple[int, dict[str, Any]]]:
    """Return the windows, with their numbers, that overlap `first` to `last` (ISO days or "")."""
    return [
        (number, window)
        for number, window in enumerate(content["windows"])
        if (not first or window["last_day"] >= first) and (not last or window["first_day"] <= last)
    ]


def _ends(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["first_day"], row["last_day"]


@dataclass(frozen=True)
class ChartLine:
    """A value's line: its runs of marks, interval bands, and shares by window."""

    number: int
    value: str
    label: str
    runs: tuple[tuple[Mark, ...], ...]
    bands: tuple[Corners, ...]
    shares: tuple[Shares | None, ...]
    label_y: float


@dataclass(frozen=True)
class SeriesChart:
    """A chart of several values."""

    frame: Frame
    lines: tuple[ChartLine, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    windows: tuple[tuple[str, float], ...]  # Names, with their positions on the axis
    log: bool
    level: float

    @property
    def letters(self) -> int:
        """The letter height; both drawing sizes are scaled down on the page."""
        return 13 if self.frame == SIZES["page"] else 17

    @property
    def named(self) -> bool:
        """Whether there is space for names next to the lines."""
        return self.frame.width - self.frame.right >= _NAMES


def series_chart(
    content: Mapping[str, Any],
    values: Sequence[str],
    first: str = "",
    last: str = "",
    *,
    log: bool = False,
    size: str = "page",
) -> SeriesChart:
    """Lay out some values of a series.

    Args:
        content: The contents of results.json.
        values: The values, at most `MAX_LINES`.
        first: The first ISO day, or "" for no limit.
        last: The last ISO day, or "" for no limit.
        log: Whether the axis of shares is logarithmic; shares of 0 or less are then gaps.
        size: One of `SIZES`.
    """
    frame, chosen, by_value = SIZES[size], windows_between(content, first, last), shares_of(content)
    ordinals = [[date.fromisoformat(day).toordinal() for day in _ends(span)] for _, span in chosen]
    middles = [sum(ends) / 2 for ends in ordinals]
    across = Axis(min(middles, default=0.0) - 0.5, max(middles, default=0.0) + 0.5,
                  frame.left, frame.right)  # fmt: skip
    columns = [across.at(middle) for middle in middles]
    rows = {value: [by_value[value][i] for i, _ in chosen] for value in values}
    axis, ticks = _axis([share for row in rows.values() for share in row if share], frame, log)
    lines = []
    for number, (value, row) in enumerate(rows.items()):
        drawn = [None if share is None or (log and share[0] <= 0) else share for share in row]
        marks, bands = line_with_bands(drawn, columns, axis)
        y = (marks[-1][-1].y if marks else axis.start) + 4
        label = short(value, _MAX_LABEL)
        lines.append(ChartLine(number, value, label, marks, bands, tuple(row), y))
    places = _apart([line.label_y for line in lines], frame.bottom)
    return SeriesChart(
        frame=frame,
        lines=tuple(replace(curve, label_y=y) for curve, y in zip(lines, places, strict=True)),
        across=tuple(_day_ticks(across)),
        up=ticks,
        windows=tuple((days(span["first_day"], span["last_day"]), x)
                      for (_, span), x in zip(chosen, columns, strict=True)),
        log=log,
        level=content["level"],
    )  # fmt: skip


def _axis(shares: Sequence[Shares], frame: Frame, log: bool) -> tuple[Axis, tuple[Tick, ...]]:
    top = max([*(high for _, _, high in shares), 1e-6])
    if not log:
        return share_axis(top, frame.bottom, frame.top, most=6)
    smallest = min([share for share, _, _ in shares if share > 0], default=top / 10)
    highest = math.ceil(math.log10(top) - 1e-9)
    lowest = min(math.floor(math.log10(smallest) + 1e-9), highest - 1)
    axis = Axis(10.0**lowest, 10.0**highest, frame.bottom, frame.top, log=True)
    marks = [factor * 10.0**power for power in range(lowest, highest + 1) for factor in (1, 2, 5)]
    visible = [mark for mark in marks if mark <= axis.high * 1.001]
    return axis, tuple(Tick(axis.at(value), f"{100 * value:.6g} %") for value in visible)


def _apart(ideal: Sequence[float], bottom: float) -> list[float]:
    """Return non-overlapping positions for names, near the ideal positions."""
    order = sorted(range(len(ideal)), key=ideal.__getitem__)
    places, above = list(ideal), -math.inf
    for i in order:
        places[i] = above = max(places[i], above + _LABEL_GAP)
    if above > bottom:
        for i in reversed(order):  # names below the axis push the others up
            places[i] = min(places[i], bottom)
            bottom = places[i] - _LABEL_GAP
    return [round(place, 2) for place in places]


def _day_ticks(axis: Axis) -> Iterator[Tick]:
    """Yield ticks of the axis of days, spaced by their texts; weekly ticks are on Mondays."""
    scale = (axis.end - axis.start) / (axis.high - axis.low)
    step = next((size for size in _STEPS if size * scale >= 64), _STEPS[-1])
    first, last = (date.fromordinal(max(1, number)) for number in
                   (math.ceil(axis.low), math.floor(axis.high)))  # fmt: skip
    has_years = first.year != last.year
    day = first + timedelta(days=-first.weekday() % 7 if step % 7 == 0 else 0)
    while day.toordinal() <= axis.high:
        text = f"{day.day} {day:%b}" + (f" {day:%y}" if has_years else "")
        yield Tick(axis.at(day.toordinal()), text)
        day += timedelta(days=step)
