"""The kind pair: the joint shares of two values, and a test of independence."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from decoder.kinds.interface import KindDecoder
from decoder.kinds.over_time import difference_columns
from decoder.kinds.result import MANIFEST, PageParts, Question, Result, StoredResult, manifest_of
from decoder.options import DecodeOptions
from decoder.output.charts import MAX_SIDE, heat_square
from decoder.pairs.arms import ArmComparison, compare_arms
from decoder.pairs.decoding import JointTable, decode_pairs
from decoder.sources.windows import sum_of
from decoder.tables.format import count, days, p_text
from decoder.tables.paging import TableQuery, page_of
from decoder.tables.table import SHARE_INTERVAL, Column, ColumnType, TableSchema
from rappor_core.aggregate import Aggregate

_SHARE, _TEXT = ColumnType.SHARE, ColumnType.TEXT
CELLS = TableSchema(
    "joint",
    "Pairs of values",
    (
        Column("first", _TEXT, "Value of the first side.", shown=True),
        Column("second", _TEXT, "Value of the second side.", shown=True),
        Column("estimate", _SHARE, "Unbiased share of all reports.", "share", shown=True),
        *SHARE_INTERVAL,
        Column("fitted", _SHARE, "Share in the nearest table without negative shares."),
        Column("shrunk", _SHARE, "Share shrunk toward independence if the evidence is weak."),
        Column("of_first", _SHARE, "Share among the reports with this first value.", shown=True),
        Column("of_first_low", _SHARE, "Lower end of its interval."),
        Column("of_first_high", _SHARE, "Upper end of its interval."),
        Column("of_second", _SHARE, "Share among the reports with this second value."),
        Column("of_second_low", _SHARE, "Lower end of its interval."),
        Column("of_second_high", _SHARE, "Upper end of its interval."),
    ),
)
MARGINS = TableSchema(
    "margins",
    "Values of each side",
    (
        Column("side", _TEXT, "Name of the side.", shown=True),
        Column("value", _TEXT, "The value.", shown=True),
        *CELLS.columns[2:6],
    ),
)
ARMS = TableSchema(
    "arms",
    "Differences between arms",
    (
        Column("arm", _TEXT, "Arm of the experiment.", shown=True),
        Column("value", _TEXT, "The answer.", shown=True),
        Column("control", _SHARE, "Share of the answer within the control.", shown=True),
        Column("share", _SHARE, "Share of the answer within the arm.", shown=True),
        *difference_columns(ColumnType.POINTS),
    ),
)
MAX_LISTED = 20  # the maximum number of cells in a summary


class Pairs(KindDecoder):
    """The decoder for pair metrics."""

    title = "Two values together"
    purpose = "two values of a pair metric together, and a test of independence"
    members = frozenset({"by"})
    schemas = (CELLS, MARGINS, ARMS)
    no_candidates = "a pair metric declares its values"

    def decode(self, counts: Sequence[Aggregate], question: Question) -> Result:
        """Decode the sum of the counts; see `KindDecoder.decode`."""
        window = sum_of(counts)
        table = decode_pairs(window, question.options)
        question.progress("pairs", 1, 1)
        alpha = question.options.alpha
        arms = compare_arms(table, question.by, alpha) if question.by else None
        return joint_result(table, question.options, arms)

    def page(self, stored: StoredResult, query: TableQuery) -> PageParts:
        """Return a heat map, the table of cells, and the margins."""
        content, manifest = stored.json(), stored.json(MANIFEST)
        window = days(manifest["first_day"], manifest["last_day"])
        lead = f"{' and '.join(content['of'])}: {count(content['reports'])} reports, {window}"
        return PageParts("result_pair.html.j2", joint_view(content, query), lead)


KIND = Pairs()


def joint_result(
    table: JointTable, options: DecodeOptions, arms: ArmComparison | None = None
) -> Result:
    """Return the result of a joint table; the differences between arms, if any, come first."""
    test, rows, margin_rows = table.independence, _cell_rows(table), _margin_rows(table)
    tables = [CELLS.of_rows(rows), MARGINS.of_rows(margin_rows)]
    compared: list[Any] = []
    if arms is not None:
        title = f"{table.metric}: each {arms.by} compared with {arms.control}"
        compared = [ARMS.of_rows(_arm_rows(arms), title)]
    content: dict[str, Any] = {
        "metric": table.metric,
        "of": list(table.of),
        "reports": table.num_reports,
        "first_day": table.first_day and table.first_day.isoformat(),
        "last_day": table.last_day and table.last_day.isoformat(),
        "level": table.level,
        "independence": {
            "statistic": test.statistic,
            "degrees_of_freedom": test.freedom,
            "p_value": test.p_value,
            "alpha": test.level,
            "refuted": test.rejected,
        },
        "cells": tables[0].records(),
        "margins": tables[1].records(),
        "warnings": list(table.warnings),
    }
    if arms is not None:
        content["arms"] = {"by": arms.by, "control": arms.control, "rows": compared[0].records()}
    cells = sorted(content["cells"], key=lambda cell: -cell["fitted"])
    names = ("first", "second", "estimate", "low", "high")
    outcome = "rejected" if test.rejected else "not rejected"
    summary = {
        "num_reports": table.num_reports,
        "of": content["of"],
        "num_cells": len(cells),
        "independence": content["independence"],
        "headline": f"{len(cells):,} cells; independence {outcome}",
        "top": [{name: cell[name] for name in names} for cell in cells[:MAX_LISTED]],
        "warnings": content["warnings"],
    }
    independence = (
        f"{table.num_reports:,} reports. Independence of {table.of[0]} and {table.of[1]} is "
        f"{outcome}: chi-squared {test.statistic:.1f} with {test.freedom:,} degrees of freedom, "
        f"p {p_text(test.p_value)}"
    )
    largest = sorted(rows, key=lambda row: -row[6])
    margins = sorted(margin_rows, key=lambda row: (row[0] != table.of[0], -row[2]))
    title = f"{table.metric}: {' and '.join(table.of)}"

    def write_covariance(path: Path) -> None:
        with path.open("wb") as file:
            np.save(file, table.covariance, allow_pickle=False)

    return Result(
        content,
        summary,
        (*tables, *compared),
        manifest=manifest_of(table, options),
        notes=(independence, *table.warnings),
        files={"covariance.npy": write_covariance},
        printed=(*compared, CELLS.of_rows(largest, title), MARGINS.of_rows(margins)),
    )


def _cell_rows(table: JointTable) -> list[tuple[Any, ...]]:
    parts = [*table.cells, table.fitted, table.shrunk]
    for side in (table.conditional(0), table.conditional(1)):
        parts += [side.estimate, side.low, side.high]
    return [
        (row, column, *(float(part[i, j]) for part in parts))
        for i, row in enumerate(table.rows)
        for j, column in enumerate(table.columns)
    ]


def _arm_rows(arms: ArmComparison) -> list[tuple[Any, ...]]:
    numbers = [getattr(arms.rows, name) for name in ARMS.names[4:]]
    rows = zip(arms.arms, arms.values, arms.control_shares, arms.shares, *numbers, strict=True)
    plain = [(arm, value, *map(float, rest)) for arm, value, *rest in rows]
    return sorted(plain, key=lambda row: (row[-1], -abs(row[4])))


def _margin_rows(table: JointTable) -> list[tuple[Any, ...]]:
    return [
        (table.of[side], value, *map(float, row))
        for side, values in enumerate((table.rows, table.columns))
        for value, row in zip(values, np.transpose(table.margin(side)), strict=True)
    ]


def joint_view(joint: dict[str, Any], query: TableQuery) -> dict[str, Any]:
    """Return the variables of `result_pair.html.j2` from the contents of results.json."""
    cells = [cell | {"pair": f"{cell['first']}, {cell['second']}"} for cell in joint["cells"]]
    cells.sort(key=lambda row: -row["fitted"])
    margins = sorted(joint["margins"], key=lambda row: -row["estimate"])
    return {
        "found": joint,
        "arms": joint.get("arms"),
        "heat": _heat(joint["cells"], "fitted" if joint["independence"]["refuted"] else "shrunk"),
        "table": page_of(cells, "pair", query),
        "margins": [
            (name, [margin for margin in margins if margin["side"] == name][:MAX_SIDE])
            for name in joint["of"]
        ],
        "level": f"{100 * joint['level']:g} %",
    }


def _heat(cells: Sequence[Mapping[str, Any]], which: str) -> dict[str, Any]:
    """Return the colored table of shares within rows, from the cells' column `which`."""
    sums: tuple[dict[str, float], dict[str, float]] = ({}, {})
    for item in cells:
        for side, name in zip(sums, ("first", "second"), strict=True):
            side[item[name]] = side.get(item[name], 0.0) + item[which]
    rows, columns = (
        [value for value in side if value in sorted(side, key=lambda v: -side[v])[:MAX_SIDE]]
        for side in sums
    )
    at = {(cell["first"], cell["second"]): cell for cell in cells}
    shares = {place: item[which] / max(sums[0][place[0]], 1e-12) for place, item in at.items()}
    top = max((shares[r, c] for r in rows for c in columns), default=1.0) or 1.0

    def square(place: tuple[str, str]) -> dict[str, Any]:
        item, share = at[place], shares[place]
        title = f"{100 * item['low']:.1f} to {100 * item['high']:.1f} % of all reports"
        return heat_square(share, top, f"{100 * share:.0f}", title, detected=item["low"] > 0)

    lines = tuple((row, tuple(square((row, column)) for column in columns)) for row in rows)
    hidden = max(map(len, sums)) > MAX_SIDE
    return {"rows": lines, "columns": tuple(columns), "hidden": hidden}
