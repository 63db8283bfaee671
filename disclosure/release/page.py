"""`index.html`: a release as one page, self-contained, for screens of any width and for paper."""

from __future__ import annotations

from typing import Any

from disclosure.files import page_template
from disclosure.release.build import Release
from disclosure.release.tables import NUMBERS, ReleasedTable, decimals

MAX_ROWS = 200  # of a table
MAX_TABLES = 50


def render_page(release: Release) -> str:
    """The page as text. Values are escaped; the longest are cut."""
    shown = release.tables[:MAX_TABLES]
    return page_template("disclosure.release", "release.html.j2").render(
        release=release,
        policy=release.policy,
        tables=[_table(table, release) for table in shown],
        left_out=len(release.tables) - len(shown),
        legend=release.policy.legend(),
        used=_used_symbols(release),
    )


def _table(table: ReleasedTable, release: Release) -> dict[str, Any]:
    """What the template shows of a table: the largest shown first, then the suppressed."""
    places = max(0, decimals(release.policy.rounding) - 2)
    columns = [getattr(table, name).tolist() for name in NUMBERS]
    rows = list(zip(table.cells, table.kinds, *columns, table.symbols, strict=True))
    rows.sort(key=lambda row: (bool(row[6]), row[1] == "total", -row[2] if not row[6] else 0.0))
    peak = max((row[5] for row in rows if not row[6] and row[1] != "total"), default=1.0) or 1.0

    def percent(value: float) -> str:
        return f"{100 * value:.{places}f} %"

    return {
        "metric": table.metric,
        "strata": table.strata,
        "window": f"{table.first_day} to {table.last_day}",
        "reports": table.reports,
        "withheld": table.withheld,
        "level": f"{100 * table.level:g} %",
        "total": len(rows),
        "hidden": int((~table.is_shown).sum()),
        "rows": [
            {
                "cell": cell,
                "kind": kind,
                "held": table.held.get(cell, 0),
                "symbol": symbol,
                "estimate": "" if symbol else percent(estimate),
                "error": "" if symbol else percent(error),
                "interval": "" if symbol else f"{percent(low)} to {percent(high)}",
                "left": 0.0 if symbol or kind == "total" else round(100 * max(low, 0) / peak, 2),
                "width": 0.0
                if symbol or kind == "total"
                else round(100 * (min(high, peak) - max(low, 0)) / peak, 2),
            }
            for cell, kind, estimate, error, low, high, symbol in rows[:MAX_ROWS]
        ],
    }


def _used_symbols(release: Release) -> set[str]:
    used = {symbol for table in release.tables for symbol in table.symbols if symbol}
    return used | {table.withheld for table in release.tables if table.withheld}
