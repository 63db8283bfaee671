"""The page of a comparison: differences in points, grouped by what changed, at its own level."""

import json
from typing import Any

from decoder.kinds.over_time import comparison_page
from decoder.kinds.result import StoredResult
from decoder.tables.paging import TableQuery
from decoder_service.shell.web import environment


def row(value: str, difference: float, p: float) -> dict[str, Any]:
    return {
        "string": value, "before": 0.2, "after": 0.2 + difference, "difference": difference,
        "std_error": 0.01, "low": difference - 0.02, "high": difference + 0.02,
        "p_value": p, "p_adjusted": p,
    }  # fmt: skip


def stored(**levels: float) -> StoredResult:
    ends = [{"first_day": day, "last_day": day, "reports": 9} for day in ("2026-11-01",) * 2]
    rows = [row("same", 0.001, 0.9), row("less", -0.05, 0.001), row("more", 0.04, 0.03)]
    common = {"level": 0.95, "warnings": [], "reason": None}
    content = json.dumps({"windows": ends, "rows": rows, **common, **levels}).encode()
    return StoredResult("compare", frozenset({"results.json"}), lambda _: content)


def page(result: StoredResult, query: TableQuery) -> str:
    parts = comparison_page(result, query)
    text = environment().get_template(parts.template).render(query=query, **parts.variables)
    return " ".join(text.split())


def test_rows_are_grouped_by_what_changed() -> None:
    text = page(stored(level=0.9, alpha=0.05), TableQuery())
    heads = [text.index(f'scope="rowgroup" colspan="7">{name}<')
             for name in ("More", "Less", "No change shown")]  # fmt: skip
    places = [text.index(f'dir="auto">{value}<') for value in ("more", "less", "same")]
    assert heads[0] < places[0] < heads[1] < places[1] < heads[2] < places[2]
    assert "<td>-5.00 points</td><td>-7.00 to -3.00 points</td>" in text
    assert "90 % interval" in text


def test_a_level_of_its_own_decides_what_changed() -> None:
    assert comparison_page(stored(alpha=0.01), TableQuery()).variables["changed"] == 1
    assert comparison_page(stored(alpha=0.05), TableQuery()).variables["changed"] == 2
