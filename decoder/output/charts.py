"""The geometry of all charts in templates/pictures.html.j2 and series_chart.html.j2.

Forest plots use percent of the width, other charts units of a view box."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, TypeVar

from decoder.tables.format import short

Corners = tuple[tuple[float, float], ...]
Shares = tuple[float, float, float]  # share, low, high
Value = TypeVar("Value")

MAX_SIDE = 20  # the maximum number of values per side of a heat map
MAX_LABEL = 300  # characters; the page truncates at its width
_LABEL_WIDTH = 65  # minimum width of a label on an axis of a plot


@dataclass(frozen=True)
class Tick:
    """A tick of an axis."""

    at: float  # Its position
    text: str
    minor: bool = False  # Omitted on a narrow page


@dataclass(frozen=True)
class Axis:
    """An axis for values from `low` to `high`, drawn from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """Return the position of a value, clipped to the axis."""
        inside = min(max(value, self.low), self.high)
        if self.log:
            part = math.log(inside / self.low) / math.log(self.high / self.low)
        else:
            part = (inside - self.low) / (self.high - self.low)
        return round(self.start + part * (self.end - self.start), 2)


@dataclass(frozen=True)
class Frame:
    """The size of a view box, and the ends of its axes."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int

    def columns(self, total: int) -> list[float]:
        """Return the centers of columns of equal width."""
        return [round(self.left + (i + 0.5) * self.step(total), 2) for i in range(total)]

    def step(self, total: int) -> float:
        """Return the width of one of `total` columns."""
        return (self.right - self.left) / max(total, 1)


TIME = Frame(420, 170, left=56, right=410, top=12, bottom=144)  # for windows
WIDE = Frame(860, 320, left=64, right=844, top=12, bottom=274)  # for a distribution
NARROW = Frame(330, 320, left=64, right=314, top=12, bottom=274)  # for a distribution, on phones


@dataclass(frozen=True)
class Mark:
    """A point or the top of a bar, with its title's number and the ends of its interval."""

    number: int
    x: float
    y: float
    low_y: float | None = None
    high_y: float | None = None


@dataclass(frozen=True)
class Plot:
    """A chart of columns."""

    frame: Frame
    up: tuple[Tick, ...]
    across: tuple[Tick, ...] = ()
    points: tuple[Mark, ...] = ()
    bars: tuple[Mark, ...] = ()
    lines: tuple[tuple[Mark, ...], ...] = ()
    bands: tuple[Corners, ...] = ()
    bar_width: float = 0.0
    titles: tuple[str, ...] = ()  # The titles of its marks; empty if the template has them


@dataclass(frozen=True)
class Estimate:
    """A share in a column: its axis label, its title, and the best-fit value."""

    label: str
    title: str
    share: float
    low: float
    high: float
    guess: float


def share_plot(windows: Sequence[Shares | None]) -> Plot:
    """Lay out a line of shares with a band of intervals; None leaves a gap."""
    ends = [end for window in windows if window for end in window]
    axis, ticks = share_axis(max([*ends, 1e-6]), TIME.bottom, TIME.top, most=4)
    lines, bands = line_with_bands(windows, TIME.columns(len(windows)), axis)
    points = tuple(mark for run in lines for mark in run)
    return Plot(TIME, ticks, points=points, lines=lines, bands=bands)


def count_plot(counts: Sequence[float]) -> Plot:
    """Lay out bars of counts, one per window."""

    def text(number: float, _: float) -> str:  # at most seven letters: 250, 12,500, 1.5 M
        return f"{number:,.0f}" if number < 1e6 else f"{number / 1e6:,g} M"

    axis, ticks = share_axis(max(*counts, 4), TIME.bottom, TIME.top, 4, text)
    columns = TIME.columns(len(counts))
    bars = [Mark(i, x, axis.at(counts[i])) for i, x in enumerate(columns)]
    return Plot(TIME, ticks, bars=tuple(bars), bar_width=0.9 * TIME.step(len(counts)))


def estimate_plots(
    estimates: Sequence[Estimate], band: Sequence[tuple[float, float]] = ()
) -> tuple[Plot, ...]:
    """Lay out shares with their intervals, for wide pages and for phones.

    Args:
        estimates: One estimate per column.
        band: The low and high end for each column. With a band, best-fit values form a line,
            otherwise bars.
    """
    largest = (
        1.0
        if band
        else max([0.01, *(max(estimate.guess, estimate.high) for estimate in estimates)])
    )
    plots = []
    for frame in (WIDE, NARROW):
        columns = frame.columns(len(estimates))
        axis, ticks = share_axis(largest, frame.bottom, frame.top, most=5 if band else 8)
        placed = list(enumerate(zip(columns, estimates, strict=True)))
        every = -(-len(placed) * _LABEL_WIDTH // (frame.right - frame.left))
        plot = Plot(
            frame,
            ticks,
            across=tuple(Tick(x, item.label) for _, (x, item) in placed[:: max(every, 1)]),
            points=tuple(
                Mark(i, x, axis.at(item.share), axis.at(item.low), axis.at(item.high))
                for i, (x, item) in placed
            ),
            titles=tuple(estimate.title for estimate in estimates),
        )
        if band:
            shares = [
                (estimate.guess, *ends) for estimate, ends in zip(estimates, band, strict=True)
            ]
            lines, bands = line_with_bands(shares, columns, axis)
            plots.append(replace(plot, lines=lines, bands=bands))
        else:
            bars = tuple(Mark(i, x, axis.at(item.guess)) for i, (x, item) in placed)
            plots.append(replace(plot, bars=bars, bar_width=0.9 * frame.step(len(estimates))))
    return tuple(plots)


def line_with_bands(
    shares: Sequence[Shares | None], columns: Sequence[float], axis: Axis
) -> tuple[tuple[tuple[Mark, ...], ...], tuple[Corners, ...]]:
    """Lay out the marks of each run of columns that have a share, and the corners of its band."""
    lines, bands = [], []
    for run in _runs(shares):
        lines.append(tuple(Mark(i, columns[i], axis.at(x[0])) for i, x in run))
        lower, upper = ([(columns[i], axis.at(x[end])) for i, x in run] for end in (1, 2))
        bands.append((*upper, *reversed(lower)))
    return tuple(lines), tuple(bands)


def _runs(values: Iterable[Value | None]) -> list[list[tuple[int, Value]]]:
    groups = groupby(enumerate(values), key=lambda pair: pair[1] is None)
    runs = [[(i, x) for i, x in group if x is not None] for _, group in groups]
    return [run for run in runs if run]


def forest(rows: Sequence[tuple[str, float, float, float, float | None]]) -> dict[str, Any]:
    """Lay out shares with their intervals, one row per value, on a linear axis that starts at 0.

    Args:
        rows: The label, share, low and high end, and the true share or None.

    Returns:
        `rows`, each with its numbers and their positions in percent of the width; and `ticks`.
    """
    largest = max((end for row in rows for end in row[3:] if end is not None), default=0.0)
    axis, ticks = share_axis(largest or 1.0, 0, 100)
    laid = [
        {"label": short(label, MAX_LABEL), "share": share, "low": low, "high": high,
         "at": axis.at(share), "low_at": axis.at(low), "high_at": axis.at(high),
         "true_at": None if true is None else axis.at(true)}
        for label, share, low, high, true in rows
    ]  # fmt: skip
    marks = [Tick(tick.at, tick.text, bool(i % 2)) for i, tick in enumerate(ticks)]
    return {"rows": laid, "ticks": marks}


@dataclass(frozen=True)
class Sparkline:
    """A small line of shares."""

    runs: tuple[Corners, ...]  # Corners of each run of windows with a share
    end: tuple[float, float] | None
    width: int = 110
    height: int = 28


def sparkline(shares: Sequence[float | None]) -> Sparkline:
    """Lay out shares over windows, None for a gap, on an axis that starts at 0."""
    width, height, margin = Sparkline.width, Sparkline.height, 3
    largest = max([1e-9, *(share for share in shares if share is not None)])
    up = Axis(0.0, largest, height - margin, margin)
    across = Axis(0.0, max(1, len(shares) - 1), margin, width - margin)
    lines = tuple(tuple((across.at(i), up.at(value)) for i, value in run) for run in _runs(shares))
    has_end = bool(shares) and shares[-1] is not None
    return Sparkline(lines, lines[-1][-1] if has_end else None)


def share_axis(
    largest: float,
    start: float,
    end: float,
    most: int = 8,
    text: Callable[[float, float], str] | None = None,
) -> tuple[Axis, tuple[Tick, ...]]:
    """Return a linear axis from 0 to `largest` or slightly more, and its ticks.

    Args:
        largest: The largest value that the axis must reach.
        start: The position of 0.
        end: The position of the end of the axis.
        most: The approximate number of steps.
        text: A function that formats a value, given the step; by default, as a share.
    """
    step, high = axis_step(largest if text else min(largest, 1.0), most)
    axis, text = Axis(0.0, high, start, end), text or tick_text
    values = [i * step for i in range(round(high / step) + 1)]
    return axis, tuple(Tick(axis.at(value), text(value, step)) for value in values)


def axis_step(largest: float, most: int = 8) -> tuple[float, float]:
    """Return the step of an axis, 1, 2 or 5 times a power of ten, and the end of the axis."""
    rough = largest / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    return step, step * math.ceil(largest / step * 0.999)


def tick_text(share: float, step: float) -> str:
    """Format a share on an axis as percent, with the decimals that its step needs."""
    decimals = max(0, -math.floor(math.log10(step * 100) + 1e-9))
    return f"{100 * share:.{decimals}f} %"


def heat_square(
    share: float, top: float, text: str, title: str, *, detected: bool
) -> dict[str, Any]:
    """Return a square of a heat map with strength 0 to 9; `top` is the largest share."""
    strength = min(9, int(10 * math.sqrt(max(share, 0.0) / top)))
    return {"strength": strength, "detected": detected, "text": text, "title": title}
