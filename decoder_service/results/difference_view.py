"""Differences of two windows as a result holds them, each with an interval of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from decoder.output.svg import Tick, axis_step, tick_text
from decoder.output.tables import TablePage, TableQuery, page_of

MOST_MARKS = 200


@dataclass(frozen=True)
class DifferencePage:
    """A page of differences and the picture's axis: places in per cent of its width."""

    table: TablePage
    ticks: tuple[Tick, ...]
    marks: tuple[tuple[float, float, float], ...]


def comparison(rows: Sequence[Mapping[str, Any]], query: TableQuery) -> dict[str, Any]:
    """What the template is filled with. rows: of compare.json."""
    ranked = sorted(rows, key=lambda row: (row["p_adjusted"], -abs(row["difference"])))
    table = page_of(ranked, "string", query)
    shown = table.rows if len(table.rows) <= MOST_MARKS else ()
    top = max((abs(row[end]) for row in shown for end in ("low", "high")), default=1.0) or 1.0
    step, end = axis_step(top, most=3)

    def at(share: float) -> float:
        return round(50 + 50 * max(-1.0, min(1.0, share / end)), 2)

    marks = tuple((at(row["low"]), at(row["difference"]), at(row["high"])) for row in shown)
    ticks = (
        Tick(0, tick_text(-end, step)),
        Tick(50, tick_text(0, step)),
        Tick(100, f"+{tick_text(end, step)}"),
    )
    changed = sum(1 for row in rows if row["p_adjusted"] <= 0.05)
    return {"differences": DifferencePage(table, ticks, marks), "changed": changed}
