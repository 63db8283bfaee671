"""Notes and tables that are printed for a joint table."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from decoder.output.joint_files import joint_content
from decoder.output.number_text import p_text
from decoder.pairs.table import JointTable, Shares
from decoder.results.tables import short
from decoder.results.warnings import percent
from decoder.workflows.kinds import AnswerTable, KindAnswer

SHOWN = 25


def joint_answer(table: JointTable, files: tuple[Path, ...] = ()) -> KindAnswer:
    """The largest cells, both margins and the test, as text."""
    test = table.independence
    said = AnswerTable(
        f"{table.metric}: {table.num_reports:,} reports",
        ("test of independence", "chi-squared", "degrees of freedom", "p"),
        (
            (
                "rejected" if test.rejected else "not rejected",
                f"{test.statistic:.1f}",
                f"{test.freedom:,}",
                p_text(test.p_value),
            ),
        ),
    )
    tables = [said, _cells(table)]
    for side, values in enumerate((table.rows, table.columns)):
        margin = table.margin(side)
        if margin is not None:
            tables.append(_margin(table.of[side], values, margin))
    return KindAnswer(joint_content(table), tuple(tables), table.warnings, files)


def _cells(table: JointTable) -> AnswerTable:
    cells, given = table.cells, table.conditional(0)
    order = np.argsort(-table.fitted, axis=None)[:SHOWN]
    rows = []
    for place in order.tolist():
        row, column = divmod(place, len(table.columns))
        at = row, column
        said = [short(table.rows[row]), short(table.columns[column]), *_three(cells, at)]
        if given is not None:
            low, high = float(given.low[at]), float(given.high[at])
            said.append(f"{percent(low)} to {percent(high)}")
        rows.append(tuple(said))
    title = "cells" if table.fitted.size <= SHOWN else f"the {SHOWN} largest cells"
    headings = [*table.of, "share", "low", "high"]
    if given is not None:
        headings.append(f"of {short(table.of[0])}")
    return AnswerTable(title, tuple(headings), tuple(rows))


def _margin(name: str, values: tuple[str, ...], margin: Shares) -> AnswerTable:
    order = np.argsort(-margin.estimate)[:SHOWN].tolist()
    rows = tuple((short(values[i]), *_three(margin, i)) for i in order)
    return AnswerTable(name, ("value", "share", "low", "high"), rows)


def _three(shares: Shares, at: int | tuple[int, int]) -> tuple[str, str, str]:
    estimate, low, high = (float(part[at]) for part in (shares.estimate, shares.low, shares.high))
    return percent(estimate), percent(low), percent(high)
