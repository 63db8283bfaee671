"""The chart of a series: several values on one axis of days, linear or logarithmic.

`templates/series_chart.html.j2` draws it, on a page and as a picture of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from decoder.output.svg import Corners, Tick, axis_step, tick_text
from decoder.tables.format import days, short

MOST_LINES = 6  # each has a colour and a dash of its own
LEFT, TOP, BOTTOM = 64, 14, 34
_NAMES = 168  # at the right, where the lines are named
SIZES = {  # width, height, and the margin at the right
    "page": (960, 360, _NAMES),
    "large": (1440, 720, _NAMES),
    "phone": (480, 340, 20),  # its lines are named below
}
_STEPS = (1, 2, 7, 14, 28, 91, 182, 364)  # days between two ticks
_LABEL_GAP = 16.0
_LONGEST = 22  # letters beside a line
Shares = tuple[float, float, float]  # share, low, high


@dataclass(frozen=True)
class ChartLine:
    """A value: its runs of points (number of the window, x, y), and the bands of its intervals.

    shares: of each window that is drawn, None where there is none.  label_y: where its name
    stands.
    """

    number: int
    value: str
    label: str
    runs: tuple[tuple[tuple[int, float, float], ...], ...]
    bands: tuple[Corners, ...]
    shares: tuple[Shares | None, ...]
    label_y: float


@dataclass(frozen=True)
class SeriesChart:
    """A chart in units of a view box. windows: names, and where each stands on the axis."""

    width: int
    height: int
    lines: tuple[ChartLine, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    windows: tuple[tuple[str, float], ...]
    log: bool
    level: float
    right: int
    left: int = LEFT
    top: int = TOP

    @property
    def letters(self) -> int:
        """Height of the letters: a wide drawing is made smaller on the page, so is a narrow one."""
        return 13 if self.width == SIZES["page"][0] else 17

    @property
    def named(self) -> bool:
        """Whether there is room for the names of the lines beside them."""
        return self.width - self.right >= _NAMES

    @property
    def bottom(self) -> int:
        """Where the axis of shares begins."""
        return self.height - BOTTOM


@dataclass(frozen=True)
class _Axis:
    """Shares as heights. low: of a logarithmic axis, where it begins; 0 of a linear one."""

    low: float
    high: float
    top: int
    bottom: int

    def height(self, share: float) -> float:
        """The y of a share, which is moved onto the axis."""
        inside = min(max(share, self.low), self.high)
        if self.low > 0:
            part = math.log(inside / self.low) / math.log(self.high / self.low)
        else:
            part = inside / self.high
        return round(self.bottom - part * (self.bottom - self.top), 2)


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
        content: of results.json.
        values: at most `MOST_LINES`.
        first: day, ISO; windows that end before are left out; "": none.
        last: day, ISO; windows that begin after are left out; "": none.
        log: whether the axis of shares is logarithmic; shares of 0 and less are gaps then.
        size: one of `SIZES`.
    """
    width, height, margin = SIZES[size]
    chosen = windows_between(content, first, last)
    middles = [_middle(one) for _, one in chosen]
    start, end = (min(middles, default=0.0) - 0.5, max(middles, default=0.0) + 0.5)
    scale = (width - margin - LEFT) / (end - start)
    xs = [round(LEFT + (middle - start) * scale, 2) for middle in middles]
    known = shares_of(content, values)
    shares = {value: [known[value][i] for i, _ in chosen] for value in values}
    axis, ticks = _axis([one for row in shares.values() for one in row if one], log, height)
    lines = [_line(number, value, shares[value], xs, axis)
             for number, value in enumerate(values)]  # fmt: skip
    return SeriesChart(
        width=width,
        height=height,
        lines=tuple(_apart(lines, axis)),
        across=tuple(_day_ticks(start, end, scale)),
        up=ticks,
        windows=tuple((days(one["first_day"], one["last_day"]), x)
                      for (_, one), x in zip(chosen, xs, strict=True)),
        log=log,
        level=content["level"],
        right=width - margin,
    )  # fmt: skip


def windows_between(
    content: Mapping[str, Any], first: str, last: str
) -> list[tuple[int, dict[str, Any]]]:
    """The windows, with their numbers, that have a day from `first` to `last`, oldest first."""
    return [
        (number, one)
        for number, one in enumerate(content["windows"])
        if (not first or one["last_day"] >= first) and (not last or one["first_day"] <= last)
    ]


def shares_of(content: Mapping[str, Any], values: Sequence[str]) -> dict[str, list[Shares | None]]:
    """Share, low and high of values in each window; None where there is none."""
    number = {_ends(one): i for i, one in enumerate(content["windows"])}
    found: dict[str, list[Shares | None]] = {value: [None] * len(number) for value in values}
    for row in content["rows"]:
        if row["string"] in found and row["proportion"] is not None:
            found[row["string"]][number[_ends(row)]] = (row["proportion"], row["low"], row["high"])
    return found


def values_by_share(content: Mapping[str, Any]) -> list[str]:
    """The values of a series, that with the largest share in its last window first."""
    last: dict[str, float] = {}
    for row in content["rows"]:
        last[row["string"]] = -1.0 if row["proportion"] is None else row["proportion"]
    return sorted(last, key=lambda value: -last[value])


def _ends(one: Mapping[str, Any]) -> tuple[str, str]:
    return one["first_day"], one["last_day"]


def _middle(one: Mapping[str, Any]) -> float:
    return sum(date.fromisoformat(day).toordinal() for day in _ends(one)) / 2


def _axis(known: Sequence[Shares], log: bool, height: int) -> tuple[_Axis, tuple[Tick, ...]]:
    """The axis of shares and its ticks."""
    top = max([*(high for _, _, high in known), 1e-6])
    ends = TOP, height - BOTTOM
    if not log:
        step, high = axis_step(top, most=6)
        axis = _Axis(0.0, high, *ends)
        numbers = [i * step for i in range(round(high / step) + 1)]
        return axis, tuple(Tick(axis.height(one), tick_text(one, step)) for one in numbers)
    smallest = min([share for share, _, _ in known if share > 0], default=top / 10)
    highest = math.ceil(math.log10(top) - 1e-9)
    lowest = min(math.floor(math.log10(smallest) + 1e-9), highest - 1)
    axis = _Axis(10.0**lowest, 10.0**highest, *ends)
    powers = [10.0**power for power in range(lowest, highest + 1)]
    marks = [factor * power for power in powers for factor in (1, 2, 5)]
    shown = [one for one in marks if one <= axis.high * 1.001]
    return axis, tuple(Tick(axis.height(one), f"{100 * one:.6g} %") for one in shown)


def _line(
    number: int,
    value: str,
    shares: Sequence[Shares | None],
    xs: Sequence[float],
    axis: _Axis,
) -> ChartLine:
    points: list[list[tuple[int, float, float]]] = [[]]
    bands: list[tuple[list[tuple[float, float]], list[tuple[float, float]]]] = [([], [])]
    for i, one in enumerate(shares):
        if one is None or (axis.low > 0 and one[0] <= 0):
            if points[-1]:
                points.append([])
                bands.append(([], []))
            continue
        points[-1].append((i, xs[i], axis.height(one[0])))
        bands[-1][0].append((xs[i], axis.height(one[2])))
        bands[-1][1].append((xs[i], axis.height(one[1])))
    runs = tuple(tuple(run) for run in points if run)
    areas = tuple((*high, *reversed(low)) for high, low in bands if high)
    last = runs[-1][-1][2] if runs else axis.bottom
    return ChartLine(number, value, short(value, _LONGEST), runs, areas, tuple(shares), last + 4.0)


def _apart(lines: Sequence[ChartLine], axis: _Axis) -> Iterator[ChartLine]:
    """The lines with names that do not cover each other."""
    ordered = sorted(lines, key=lambda line: line.label_y)
    places: list[float] = []
    for line in ordered:
        places.append(max([line.label_y, *(place + _LABEL_GAP for place in places[-1:])]))
    over = max(0.0, places[-1] - axis.bottom) if places else 0.0
    for i in range(len(places) - 1, -1, -1):  # those that left the axis move the others up
        limit = axis.bottom if i == len(places) - 1 else places[i + 1] - _LABEL_GAP
        places[i] = min(places[i], limit) if over else places[i]
    moved = {line.number: place for line, place in zip(ordered, places, strict=True)}
    for line in lines:
        yield ChartLine(**{**line.__dict__, "label_y": round(moved[line.number], 2)})


def _day_ticks(start: float, end: float, scale: float) -> Iterator[Tick]:
    """Ticks of the axis of days, no nearer than their texts allow; weeks begin on Mondays."""
    step = next((one for one in _STEPS if one * scale >= 64), _STEPS[-1])
    first = math.ceil(start)
    if step % 7 == 0:
        first += (7 - date.fromordinal(first).weekday()) % 7
    day = date.fromordinal(first) if first > 0 else date.min
    years = date.fromordinal(max(1, math.ceil(start))).year != date.fromordinal(
        max(1, math.floor(end))
    ).year  # fmt: skip
    while day.toordinal() <= end:
        text = f"{day.day} {day:%b}" + (f" {day:%y}" if years else "")
        yield Tick(round(LEFT + (day.toordinal() - start) * scale, 2), text)
        day += timedelta(days=step)
