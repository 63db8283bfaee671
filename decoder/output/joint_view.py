"""The view of a joint table on a result's page, from results.json."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from decoder.tables.paging import TableQuery, page_of

MOST_SIDE = 20  # values of each side of a heat map


@dataclass(frozen=True)
class HeatSquare:
    """A cell of the heat map. strength: 0 to 9, of its share within its row; detected: it differs
    from zero."""

    strength: int
    detected: bool
    text: str
    title: str


@dataclass(frozen=True)
class Heat:
    """Shares within rows, as a table that is coloured."""

    rows: tuple[tuple[str, tuple[HeatSquare, ...]], ...]
    columns: tuple[str, ...]
    hidden: bool


def joint_view(found: dict[str, Any], query: TableQuery) -> dict[str, Any]:
    """The variables of `result_pair.html.j2`. found: content of results.json."""
    cells = [one | {"pair": f"{one['first']}, {one['second']}"} for one in found["cells"]]
    cells.sort(key=lambda one: -one["fitted"])
    return {
        "found": found,
        "heat": _heat(found["cells"], "fitted" if found["independence"]["refuted"] else "shrunk"),
        "table": page_of(cells, "pair", query),
        "margins": _margins(found),
        "level": f"{100 * found['level']:g} %",
    }


def _heat(cells: Sequence[Mapping[str, Any]], which: str) -> Heat:
    sums: tuple[dict[str, float], dict[str, float]] = ({}, {})
    for one in cells:
        for side, name in enumerate(("first", "second")):
            sums[side][one[name]] = sums[side].get(one[name], 0.0) + one[which]
    rows, columns = (
        [value for value in side if value in sorted(side, key=lambda v: -side[v])[:MOST_SIDE]]
        for side in sums
    )
    at = {(one["first"], one["second"]): one for one in cells}
    shares = {place: one[which] / max(sums[0][place[0]], 1e-12) for place, one in at.items()}
    top = max((shares[r, c] for r in rows for c in columns), default=1.0) or 1.0
    made = tuple(
        (row, tuple(_square(at[row, column], shares[row, column], top) for column in columns))
        for row in rows
    )
    return Heat(made, tuple(columns), max(len(side) for side in sums) > MOST_SIDE)


def _square(one: Mapping[str, Any], share: float, top: float) -> HeatSquare:
    low, high = one["low"], one["high"]
    title = f"{100 * low:.1f} to {100 * high:.1f} % of all reports"
    strength = min(9, int(10 * math.sqrt(max(share, 0.0) / top)))
    return HeatSquare(strength, low > 0, f"{100 * share:.0f}", title)


def _margins(found: Mapping[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    return [
        (name, sorted((one for one in found["margins"] if one["side"] == name),
                      key=lambda one: -one["estimate"])[:MOST_SIDE])
        for name in found["of"]
    ]  # fmt: skip
