"""`report.html` of a joint table: a heat map, margins and the test, in one self-contained page."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decoder.output.jinja import page_template
from decoder.output.palette import DETECTED_FROM, UNDETECTED_TO, colours
from decoder.pairs.table import JointTable
from decoder.results.tables import short
from decoder.results.warnings import percent

SHOWN = 40  # values of each side, the largest; joint.csv has all
CELL, LABEL, HEAD, RIGHT = 44, 170, 130, 60  # pixels; labels of columns lean over the right
MOST_ROW, MOST_COLUMN = 22, 20  # characters of a label
EVEN = 0.179  # relative luminance on which black and white contrast alike, 4.58 to 1


@dataclass(frozen=True)
class HeatCell:
    """One square of the heat map: place in pixels, colour, text and tooltip."""

    x: int
    y: int
    fill: str
    text: str
    ink: str
    title: str


@dataclass(frozen=True)
class HeatMap:
    """The layout of a heat map: squares and labels, sizes in pixels. Shares are within rows."""

    cells: tuple[HeatCell, ...]
    rows: tuple[tuple[int, str], ...]
    columns: tuple[tuple[int, str], ...]
    width: int
    height: int


def heat_map(table: JointTable) -> HeatMap:
    """Lay out the shares within each row (of all reports, where rows have no intervals).

    They are those of `JointTable.pictured`. A cell that is detected takes the darker part of
    the scale, any other a pale one.
    """
    rows, columns = (_largest(table, side) for side in (0, 1))
    whole = np.maximum(table.pictured.sum(axis=1, keepdims=True), 1e-12)
    drawn = np.clip(table.pictured / whole, 0.0, 1.0)
    top = float(drawn[np.ix_(rows, columns)].max()) or 1.0
    cells, found, squares = table.cells, table.detected, []
    for y, i in enumerate(rows):
        for x, j in enumerate(columns):
            share, detected = float(drawn[i, j]), bool(found[i, j])
            part = (share / top) ** 0.5
            place = DETECTED_FROM + (1 - DETECTED_FROM) * part if detected else UNDETECTED_TO * part
            title = (
                f"{short(table.rows[i])}, {short(table.columns[j])}: "
                f"{percent(float(cells.estimate[i, j]))} of all reports "
                f"({percent(float(cells.low[i, j]))} to {percent(float(cells.high[i, j]))})"
            )
            squares.append(
                HeatCell(LABEL + CELL * x, HEAD + CELL * y, _hex(place), f"{100 * share:.0f}",
                         ink(place), title)
            )  # fmt: skip
    return HeatMap(
        tuple(squares),
        tuple((HEAD + CELL * y, short(table.rows[i], MOST_ROW)) for y, i in enumerate(rows)),
        tuple(
            (LABEL + CELL * x, short(table.columns[j], MOST_COLUMN)) for x, j in enumerate(columns)
        ),
        LABEL + CELL * len(columns) + RIGHT,
        HEAD + CELL * len(rows) + 20,
    )


def render_joint(table: JointTable) -> str:
    """Render report.html of a joint table."""
    page = page_template("joint.html.j2")
    sides = []
    for side, values in enumerate((table.rows, table.columns)):
        margin = table.margin(side)
        if margin is not None:
            order = np.argsort(-margin.estimate, kind="stable")[:SHOWN].tolist()
            parts = (margin.estimate, margin.low, margin.high)
            rows = [(values[i], *(float(part[i]) for part in parts)) for i in order]
            sides.append((table.of[side], rows))
    return page.render(
        table=table,
        heat=heat_map(table),
        cell=CELL,
        label=LABEL,
        head=HEAD,
        sides=sides,
        shown=SHOWN,
        hidden=max(table.shape) > SHOWN,
        level=f"{100 * table.level:g} %",
        description=table.definition.get("description"),
    )


def _largest(table: JointTable, side: int) -> list[int]:
    """The largest values of a side, in their own order."""
    sums = table.fitted.sum(axis=1 - side)
    return sorted(np.argsort(-sums, kind="stable")[:SHOWN].tolist())


def ink(place: float) -> str:
    """Black or white text colour, whichever contrasts better with the colour at `place` on the
    scale."""
    parts = colours(np.array([place]))[0]
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return "#000" if float(linear @ (0.2126, 0.7152, 0.0722)) > EVEN else "#fff"  # WCAG 2.2


def _hex(place: float) -> str:
    red, green, blue = (round(255 * float(part)) for part in colours(np.array([place]))[0])
    return f"#{red:02x}{green:02x}{blue:02x}"
