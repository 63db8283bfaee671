"""Geometry and texts of the pictures of numbers: a curve with its intervals, and bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from decoder.numbers.changes import ANY_DATA, MEAN
from decoder.numbers.tables import Bin, CurvePoint
from decoder.output.svg import Tick, axis_step, tick_text

WIDTH, HEIGHT = 860, 320
NARROW = 330  # of a picture that a phone shows at its own size
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 12, 46
LABEL_WIDTH = 65  # of one edge on an axis, at least


@dataclass(frozen=True)
class Whisker:
    """An interval in the picture, in pixels."""

    x: float
    y: float
    low_y: float
    high_y: float
    title: str


@dataclass(frozen=True)
class Bar:
    """One bar of the picture, with the interval of its unbiased share."""

    x: float
    y: float
    width: float
    height: float
    whisker: Whisker


@dataclass(frozen=True)
class Plot:
    """The layout of a drawing: points or bars, a band and a line as lists of coordinates, ticks
    of both axes."""

    whiskers: tuple[Whisker, ...]
    bars: tuple[Bar, ...]
    band: str
    line: str
    ticks_x: tuple[Tick, ...]
    ticks_y: tuple[Tick, ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    bottom: int = HEIGHT - BOTTOM

    @property
    def right(self) -> int:
        """Right end of the axis, in pixels."""
        return self.width - RIGHT

    @property
    def is_narrow(self) -> bool:
        """Whether the picture is the one for phones."""
        return self.width < WIDTH


def curve_plots(points: Sequence[CurvePoint]) -> tuple[Plot, ...]:
    """Share at or above each edge: points with intervals, the joint band, the fitted line.

    The same picture for wide pages and for phones, of which a page shows one.
    """
    return tuple(_curve_plot(points, width) for width in (WIDTH, NARROW))


def bins_plots(bins: Sequence[Bin]) -> tuple[Plot, ...]:
    """Shares of the bins: bars of the fit, with the intervals of the unbiased shares; two sizes."""
    return tuple(_bins_plot(bins, width) for width in (WIDTH, NARROW))


def _curve_plot(points: Sequence[CurvePoint], width: int) -> Plot:
    columns = _columns(len(points), width)
    upper = [(x, _y(p.band_high, 1.0)) for x, p in zip(columns, points, strict=True)]
    lower = [(x, _y(p.band_low, 1.0)) for x, p in zip(columns, points, strict=True)]
    line = [(x, _y(p.fitted, 1.0)) for x, p in zip(columns, points, strict=True)]
    return Plot(
        tuple(_whisker(x, p, 1.0) for x, p in zip(columns, points, strict=True)),
        (),
        _pairs(upper + lower[::-1]),
        _pairs(line),
        _labels(columns, [_tick(point.edge) for point in points], width),
        _shares(1.0, 0.2),
        width,
    )


def _bins_plot(bins: Sequence[Bin], whole: int) -> Plot:
    columns = _columns(len(bins), whole)
    width = columns[1] - columns[0] if len(columns) > 1 else 40.0
    step, top = axis_step(max([one.fitted for one in bins] + [one.high for one in bins] + [0.01]))
    bars = []
    for x, one in zip(columns, bins, strict=True):
        y = _y(one.fitted, top)
        height = round(HEIGHT - BOTTOM - y, 2)
        bars.append(Bar(round(x - width * 0.45, 2), y, round(width * 0.9, 2), height,
                        _whisker(x, one, top)))  # fmt: skip
    names = ["" if one.lower is None else _tick(one.lower) for one in bins]
    labels = _labels(columns, names, whole)
    return Plot((), tuple(bars), "", "", labels, _shares(top, step), whole)


def bin_text(one: Bin) -> str:
    """Format a bin for people."""
    if one.lower is None:
        return f"below {edge_text(one.upper or 0.0)}"
    if one.upper is None:
        return f"{edge_text(one.lower)} or more"
    return f"{edge_text(one.lower)} to {edge_text(one.upper)}"


def quantity_text(quantity: str, unit: str) -> str:
    """What a change is of (`ChangeRow.quantity`), in words."""
    if quantity == ANY_DATA or quantity.startswith(MEAN):
        return quantity
    return f"at or above {quantity} {unit}".rstrip()


def edge_text(edge: float) -> str:
    """Format an edge for people."""
    return f"{edge:,.6g}"


def _tick(edge: float) -> str:
    """An edge on an axis, to three digits."""
    return f"{float(f'{edge:.3g}'):,.10g}"


def _whisker(x: float, one: CurvePoint | Bin, top: float) -> Whisker:
    where = edge_text(one.edge) if isinstance(one, CurvePoint) else bin_text(one)
    title = f"{where}: {100 * one.low:.1f} to {100 * one.high:.1f} %"
    y = _y(min(max(one.estimate, 0.0), 1.0), top)
    return Whisker(x, y, _y(one.low, top), _y(one.high, top), title)


def _columns(size: int, width: int) -> list[float]:
    span = width - LEFT - RIGHT
    return [round(LEFT + (i + 0.5) * span / max(size, 1), 2) for i in range(size)]


def _y(share: float, top: float) -> float:
    return round(HEIGHT - BOTTOM - min(max(share, 0.0), top) / top * (HEIGHT - TOP - BOTTOM), 2)


def _labels(columns: Sequence[float], names: Sequence[str], width: int) -> tuple[Tick, ...]:
    most = (width - LEFT - RIGHT) // LABEL_WIDTH
    every = -(-len(names) // most)
    pairs = list(zip(columns, names, strict=True))[::every]
    return tuple(Tick(x, name) for x, name in pairs)


def _shares(top: float, step: float) -> tuple[Tick, ...]:
    return tuple(
        Tick(_y(i * step, top), tick_text(i * step, step)) for i in range(round(top / step) + 1)
    )


def _pairs(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x},{y}" for x, y in points)
