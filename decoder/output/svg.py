"""Geometry of the pages' pictures: numbers become positions; templates/pictures.html.j2 draws
them.

Interval plots are placed in per cent of the width, so that they fit any window; plots over time
have a view box.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from decoder.results.tables import Detected
from decoder.tables.format import short

Corners = tuple[tuple[float, float], ...]

WIDTH, HEIGHT = 420, 170  # of a plot over time
LEFT, RIGHT, TOP, BOTTOM = 56, 10, 12, 26
_LONGEST_LABEL = 300  # letters; the page cuts at the width


@dataclass(frozen=True)
class Tick:
    """A tick of an axis: its position, its text, and whether a narrow page leaves it out."""

    at: float
    text: str
    minor: bool = False


@dataclass(frozen=True)
class ForestRow:
    """The layout of one value, in per cent of the plot's width; `true_at` None where the truth
    is not known."""

    label: str
    at: float
    low_at: float
    high_at: float
    true_at: float | None
    share: float
    low: float
    high: float


@dataclass(frozen=True)
class Forest:
    """Estimates with intervals, one row a value."""

    rows: tuple[ForestRow, ...]
    ticks: tuple[Tick, ...]


@dataclass(frozen=True)
class TimePlot:
    """Numbers over windows, in units of a view box of `WIDTH` by `HEIGHT`.

    points: (number of the window, x, y).  lines: corners of each run of windows with a number.
    bands: corners of the area of each run's intervals.  step: between windows.
    """

    points: tuple[tuple[int, float, float], ...]
    lines: tuple[Corners, ...]
    bands: tuple[Corners, ...]
    ticks: tuple[Tick, ...]
    step: float
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    bottom: int = HEIGHT - BOTTOM


def forest(detected: Sequence[Detected]) -> Forest:
    """Lay out the values found and their intervals on a linear axis that starts at 0."""
    ends = [row.high for row in detected] + [row.true_share or 0.0 for row in detected]
    step, top = axis_step(max(ends, default=1.0) or 1.0)
    return Forest(tuple(_row(row, top) for row in detected), _ticks(step, top))


def share_forest(rows: Sequence[tuple[str, float, float, float]]) -> Forest:
    """Lay out shares with intervals as `forest` does. rows: label, share, low and high."""
    step, top = axis_step(max([*(high for *_, high in rows), 1e-6]))
    laid = tuple(
        ForestRow(label, _part(share, top), _part(low, top), _part(high, top), None,
                  share, low, high)
        for label, share, low, high in rows
    )  # fmt: skip
    return Forest(laid, _ticks(step, top))


def _ticks(step: float, top: float) -> tuple[Tick, ...]:
    return tuple(
        Tick(_part(i * step, top), tick_text(i * step, step), bool(i % 2))
        for i in _steps(top, step)
    )


def _row(row: Detected, top: float) -> ForestRow:
    return ForestRow(
        label=short(row.value, _LONGEST_LABEL),
        at=_part(row.share, top),
        low_at=_part(row.low, top),
        high_at=_part(row.high, top),
        true_at=None if row.true_share is None else _part(row.true_share, top),
        share=row.share,
        low=row.low,
        high=row.high,
    )


def _part(share: float, top: float) -> float:
    return round(100 * min(max(share / top, 0.0), 1.0), 2)


def share_plot(windows: Sequence[tuple[float, float, float] | None]) -> TimePlot:
    """A line of shares within the band of their intervals.

    windows: share, low and high of each; None leaves a gap: what is not found is not 0.
    """
    numbers = [end for one in windows if one for end in one]
    step, top = axis_step(max([*numbers, 1e-6]), most=4)
    runs = _runs(windows)
    xs = [_column(number, len(windows)) for number in range(len(windows))]
    lines = [tuple((xs[i], _height(one[0], top)) for i, one in run) for run in runs]
    bands = [
        (*((xs[i], _height(one[2], top)) for i, one in run),
         *((xs[i], _height(one[1], top)) for i, one in reversed(run)))
        for run in runs
    ]  # fmt: skip
    return TimePlot(
        points=tuple((i, xs[i], _height(one[0], top)) for run in runs for i, one in run),
        lines=tuple(lines),
        bands=tuple(bands),
        ticks=tuple(
            Tick(_height(i * step, top), tick_text(i * step, step)) for i in _steps(top, step)
        ),
        step=_column(1, len(windows)) - xs[0],
    )


@dataclass(frozen=True)
class Sparkline:
    """A small line of shares. runs: corners of each run of windows with a share."""

    runs: tuple[Corners, ...]
    end: tuple[float, float] | None
    width: int = 110
    height: int = 28


def sparkline(shares: Sequence[float | None]) -> Sparkline:
    """Lay out shares over windows, None for a gap, on an axis that begins at 0."""
    width, height, margin = Sparkline.width, Sparkline.height, 3
    top = max([1e-9, *(one for one in shares if one is not None)])
    step = (width - 2 * margin) / max(1, len(shares) - 1)
    at = [None if one is None else
          (round(margin + i * step, 1),
           round(height - margin - max(one, 0.0) / top * (height - 2 * margin), 1))
          for i, one in enumerate(shares)]  # fmt: skip
    runs: list[list[tuple[float, float]]] = [[]]
    for one in at:
        if one is not None:
            runs[-1].append(one)
        elif runs[-1]:
            runs.append([])
    return Sparkline(tuple(tuple(run) for run in runs if run), at[-1] if at else None)


def _runs(
    windows: Sequence[tuple[float, float, float] | None],
) -> list[list[tuple[int, tuple[float, float, float]]]]:
    """Neighbouring windows that have a number, with theirs."""
    runs: list[list[tuple[int, tuple[float, float, float]]]] = [[]]
    for number, one in enumerate(windows):
        if one is not None:
            runs[-1].append((number, one))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def count_plot(counts: Sequence[float]) -> TimePlot:
    """Lay out columns of counts, one a window."""
    step, top = axis_step(max(*counts, 4), most=4)
    xs = [_column(number, len(counts)) for number in range(len(counts))]
    points = tuple((i, xs[i], _height(one, top)) for i, one in enumerate(counts))
    ticks = (Tick(_height(i * step, top), _count_text(i * step)) for i in _steps(top, step))
    return TimePlot(points, (), (), tuple(ticks), _column(1, len(counts)) - xs[0])


def _steps(top: float, step: float) -> range:
    return range(round(top / step) + 1)


def _column(number: int, total: int) -> float:
    return round(LEFT + (number + 0.5) * (WIDTH - LEFT - RIGHT) / total, 2)


def _height(value: float, top: float) -> float:
    scale = (HEIGHT - TOP - BOTTOM) / top
    return round(HEIGHT - BOTTOM - min(max(value, 0.0), top) * scale, 2)


def _count_text(number: float) -> str:
    """At most seven letters: 250, 12,500, 1.5 M."""
    return f"{number:,.0f}" if number < 1e6 else f"{number / 1e6:,g} M"


def axis_step(largest: float, most: int = 8) -> tuple[float, float]:
    """The step of an axis (1, 2 or 5 times a power of ten) and its end, for values from 0 to
    `largest`."""
    rough = largest / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    return step, step * math.ceil(largest / step * 0.999)


def tick_text(share: float, step: float) -> str:
    """Format a share on an axis as per cent, with the decimals that its step needs."""
    decimals = max(0, -math.floor(math.log10(step * 100) + 1e-9))
    return f"{100 * share:.{decimals}f} %"
