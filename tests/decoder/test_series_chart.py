"""The chart of a series: axes, windows, gaps, and names that do not cover each other."""

from typing import Any

import pytest

from decoder.kinds.over_time import chart_csv
from decoder.output.charts import sparkline
from decoder.output.series_view import series_chart, windows_between

DAYS = [f"2026-11-{day:02}" for day in range(1, 31)]


def content(shares: dict[str, list[float | None]]) -> dict[str, Any]:
    """A series of windows of a day."""
    number = len(next(iter(shares.values())))
    ends = [{"first_day": day, "last_day": day, "reports": 1000} for day in DAYS[:number]]
    rows = [
        {**ends[i], "string": value, "proportion": one, "std_error": 0.01,
         "low": max(0.0, (one or 0.0) - 0.02), "high": (one or 0.0) + 0.02}
        for value, row in shares.items() for i, one in enumerate(row)
    ]  # fmt: skip
    return {"windows": ends, "level": 0.9, "alpha": 0.1, "rows": rows, "changes": []}


def test_a_linear_axis_begins_at_zero() -> None:
    drawn = series_chart(content({"a": [0.1, 0.2], "b": [0.3, 0.38]}), ["a", "b"])
    assert [tick.text for tick in drawn.up] == ["0 %", "10 %", "20 %", "30 %", "40 %"]
    top, bottom = drawn.frame.top, drawn.frame.bottom
    assert drawn.up[0].at == bottom
    assert drawn.up[-1].at == top
    first, second = drawn.lines[1].runs[0]
    assert first.y == pytest.approx(bottom - 0.75 * (bottom - top), abs=0.01)
    assert first.x < second.x
    assert drawn.level == 0.9


def test_a_window_without_a_share_is_a_gap() -> None:
    drawn = series_chart(content({"a": [0.1, None, 0.2, 0.2]}), ["a"])
    assert [len(run) for run in drawn.lines[0].runs] == [1, 2]
    assert drawn.lines[0].shares[1] is None
    assert len(sparkline([0.1, None, 0.2]).runs) == 2


def test_days_cut_a_chart_and_its_numbers() -> None:
    found = content({"a": [0.1] * 9, "b": [0.2] * 9})
    drawn = series_chart(found, ["a"], DAYS[2], DAYS[4])
    assert [name for name, _ in drawn.windows] == DAYS[2:5]
    assert [number for number, _ in windows_between(found, "", DAYS[1])] == [0, 1]
    text = chart_csv(found, ["a"], DAYS[2], DAYS[4]).decode()
    assert text.count("\n") == 4
    assert '"b"' not in text
