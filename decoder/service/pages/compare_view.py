"""Differences of two windows, or of two results, each with an interval of its own."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from scipy.special import ndtr, ndtri

from decoder.inference.multiple_testing import decide
from decoder.reports.svg import Tick, axis_step, tick_text
from decoder.service.pages.tables import TablePage, TableQuery, page_of

MOST_MARKS = 200


@dataclass(frozen=True)
class Differences:
    """A page of differences and the picture's axis: places in per cent of its width."""

    table: TablePage
    ticks: tuple[Tick, ...]
    marks: tuple[tuple[float, float, float], ...]


def comparison(rows: Sequence[Mapping[str, Any]], query: TableQuery) -> dict[str, Any]:
    """What the template is filled with. rows: of compare.json, or of `of_results`."""
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
    return {"differences": Differences(table, ticks, marks), "changed": changed}


def of_results(
    before: bytes, after: bytes, values: Iterable[str], level: float
) -> list[dict[str, Any]]:
    """Differences of the shares of values in two decodings, whose reports are other ones.

    Args:
        before, after: candidates.parquet of each.
        values: which; those that both lists have are compared.
        level: of the intervals.

    Returns:
        Rows as in compare.json. The errors are added as of independent estimates: a person who is
        in both windows makes the difference less uncertain than that, never more.
    """
    tables = [_estimates(content, set(values)) for content in (before, after)]
    both = sorted(tables[0].keys() & tables[1].keys(), key=lambda one: -tables[1][one][0])
    if not both:
        return []
    old, new = (np.array([table[value] for value in both]) for table in tables)
    difference, error = new[:, 0] - old[:, 0], np.hypot(old[:, 1], new[:, 1])
    p = 2 * np.asarray(ndtr(-np.abs(difference / error)))
    margin = -float(ndtri((1 - level) / 2)) * error
    columns = {
        "before": old[:, 0],
        "after": new[:, 0],
        "difference": difference,
        "std_error": error,
        "low": difference - margin,
        "high": difference + margin,
        "p_value": p,
        "p_adjusted": decide(p, p, "bh", 0.5).adjusted,
    }
    return [
        {"string": value} | {name: float(column[i]) for name, column in columns.items()}
        for i, value in enumerate(both)
    ]


def detected_values(content: bytes) -> list[str]:
    """The values of results.json that stand for themselves alone."""
    return [str(row["value"]) for row in json.loads(content)["detected"]]


def _estimates(content: bytes, values: set[str]) -> dict[str, tuple[float, float]]:
    """Unbiased share and standard error of values."""
    table = parquet.read_table(io.BytesIO(content), columns=["value", "estimate", "std_error"])
    wanted = table.filter(pc.is_in(table["value"], value_set=pa.array(sorted(values), pa.string())))
    rows = zip(*(wanted[name].to_pylist() for name in wanted.column_names), strict=True)
    return {value: (share, error) for value, share, error in rows}
