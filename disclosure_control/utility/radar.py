"""A radar of columns: how near each is to the original, on one axis each."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from disclosure_control.errors import TableError
from disclosure_control.utility.comparison import Measure

_CENTRE, _RADIUS = 200, 140


def radar_picture(measures: Sequence[Measure]) -> str:
    """Draw one minus the Hellinger distance of each column as an SVG radar chart, from 0 in the
    centre to 1.

    measures: of `compare`. Raises TableError for fewer than three columns.
    """
    near = {m.column: 1 - m.value for m in measures if m.name == "Hellinger" and m.column != "all"}
    if len(near) < 3:
        raise TableError(f"a radar needs three columns or more, not {len(near)}")
    turns = [2 * math.pi * place / len(near) for place in range(len(near))]
    rings = "".join(
        f'<circle cx="{_CENTRE}" cy="{_CENTRE}" r="{_RADIUS * level:.0f}" fill="none" '
        f'stroke="#ddd"/><text x="{_CENTRE + 3}" y="{_CENTRE - _RADIUS * level - 2:.0f}" '
        f'fill="#777">{level:g}</text>'
        for level in (0.25, 0.5, 0.75, 1)
    )
    axes = "".join(
        f'<path d="M{_CENTRE} {_CENTRE}L{_point(turn, 1)}" stroke="#ddd"/>' for turn in turns
    )
    points = " ".join(map(_point, turns, near.values()))
    labels = "".join(
        f'<text x="{x}" y="{y}" text-anchor="{_anchor(turn)}">'
        f"{html.escape(name)} {value:.2f}</text>"
        for (name, value), turn in zip(near.items(), turns, strict=True)
        for x, y in [_point(turn, 1.1).split(",")]
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="-100 0 600 400" font-family="sans-serif" '
        f'font-size="12"><title>1 - Hellinger distance of each column</title>{rings}{axes}'
        f'<polygon points="{points}" fill="#1f77b4" fill-opacity=".2" stroke="#1f77b4"/>{labels}'
        "</svg>\n"
    )


def _point(turn: float, level: float) -> str:
    x, y = math.sin(turn) * level, -math.cos(turn) * level
    return f"{_CENTRE + _RADIUS * x:.1f},{_CENTRE + _RADIUS * y:.1f}"


def _anchor(turn: float) -> str:
    side = math.sin(turn)
    return "middle" if abs(side) < 0.1 else "start" if side > 0 else "end"
