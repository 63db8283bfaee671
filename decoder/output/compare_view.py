"""The view of a comparison of two windows, from results.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from decoder.output.svg import Tick, axis_step, tick_text
from decoder.tables.paging import TablePage, TableQuery, page_of

MAX_MARKS = 200
MORE, LESS, UNCHANGED = "More", "Less", "No change shown"


@dataclass(frozen=True)
class DifferencePage:
    """A page of differences and the picture's axis: places in percent of its width."""

    table: TablePage
    ticks: tuple[Tick, ...]
    marks: tuple[tuple[float, float, float], ...]


def compare_view(content: Mapping[str, Any], query: TableQuery) -> dict[str, Any]:
    """The variables of `result_compare.html.j2`: what changed first, the surest first."""
    alpha = content["alpha"]
    rows = [row | {"group": _group(row, alpha)} for row in content["rows"]]
    return {
        "differences": _page(rows, query),
        "changed": sum(1 for row in rows if row["group"] != UNCHANGED),
        "windows": content["windows"],
        "alpha": alpha,
        "level": f"{100 * content['level']:g} %",
        "grouped": not query.sort,
        "unchanged": UNCHANGED,
        "warnings": content["warnings"],
        "reason": content["reason"],
    }


def _group(row: Mapping[str, Any], alpha: float) -> str:
    if row["p_adjusted"] > alpha:
        return UNCHANGED
    return MORE if row["difference"] > 0 else LESS


def _page(rows: Sequence[Mapping[str, Any]], query: TableQuery) -> DifferencePage:
    groups = (MORE, LESS, UNCHANGED)
    ordered = sorted(
        rows,
        key=lambda row: (groups.index(row["group"]), row["p_adjusted"], -abs(row["difference"])),
    )
    table = page_of(ordered, "string", query)
    shown = table.rows if len(table.rows) <= MAX_MARKS else ()
    top = max((abs(row[end]) for row in shown for end in ("low", "high")), default=1.0) or 1.0
    step, end = axis_step(top, most=3)

    def at(share: float) -> float:
        return round(50 + 50 * max(-1.0, min(1.0, share / end)), 2)

    marks = tuple((at(row["low"]), at(row["difference"]), at(row["high"])) for row in shown)
    ticks = (
        Tick(0, _points(-end, step)),
        Tick(50, _points(0, step)),
        Tick(100, f"+{_points(end, step)}"),
    )
    return DifferencePage(table, ticks, marks)


def _points(share: float, step: float) -> str:
    return tick_text(share, step).removesuffix(" %")
