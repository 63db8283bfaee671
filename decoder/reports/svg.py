"""Geometry of the report's pictures. Numbers in, coordinates out; the template draws them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from decoder.results.tables import Detected, short

ROW_HEIGHT = 26
LABEL_WIDTH = 250
PLOT_WIDTH = 560
MARGIN_RIGHT = 30
TOP = 14
BOTTOM = 40
_LONGEST_LABEL = 300  # letters; the page cuts at the width


@dataclass(frozen=True)
class Tick:
    """A mark on the axis: horizontal position in pixels and its text."""

    x: float
    text: str


@dataclass(frozen=True)
class ForestRow:
    """One value: positions in pixels; `true_x` None where the truth is not known."""

    label: str
    y: float
    low_x: float
    high_x: float
    x: float
    true_x: float | None
    covered: bool


@dataclass(frozen=True)
class Forest:
    """Estimates with intervals, one row a value; sizes in pixels."""

    rows: tuple[ForestRow, ...]
    ticks: tuple[Tick, ...]
    width: int
    height: int
    left: int
    bottom: int


def forest(detected: Sequence[Detected]) -> Forest:
    """Lay out a forest plot of what was found, on a linear axis that starts at 0."""
    ends = [row.high for row in detected] + [row.true_share or 0.0 for row in detected]
    step, top = axis_step(max(ends, default=1.0) or 1.0)
    scale = PLOT_WIDTH / top
    rows = tuple(_row(row, number, scale) for number, row in enumerate(detected))
    ticks = tuple(
        Tick(LABEL_WIDTH + i * step * scale, tick_text(i * step, step))
        for i in range(round(top / step) + 1)
    )
    bottom = TOP + ROW_HEIGHT * len(rows)
    width = LABEL_WIDTH + PLOT_WIDTH + MARGIN_RIGHT
    return Forest(rows, ticks, width, bottom + BOTTOM, LABEL_WIDTH, bottom)


def _row(row: Detected, number: int, scale: float) -> ForestRow:
    true_x = None if row.true_share is None else LABEL_WIDTH + row.true_share * scale
    return ForestRow(
        label=short(row.value, _LONGEST_LABEL),
        y=TOP + ROW_HEIGHT * (number + 0.5),
        low_x=LABEL_WIDTH + row.low * scale,
        high_x=LABEL_WIDTH + row.high * scale,
        x=LABEL_WIDTH + row.share * scale,
        true_x=true_x,
        covered=row.true_share is None or row.low <= row.true_share <= row.high,
    )


def axis_step(largest: float, most: int = 8) -> tuple[float, float]:
    """A round step (1, 2 or 5 times a power of ten) and the end of an axis from 0 to `largest`."""
    rough = largest / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    return step, step * math.ceil(largest / step * 0.999)


def tick_text(share: float, step: float) -> str:
    """A share on an axis as per cent, with the decimals that its step needs."""
    decimals = max(0, -math.floor(math.log10(step * 100) + 1e-9))
    return f"{100 * share:.{decimals}f} %"
