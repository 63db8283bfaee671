"""HTML views of results in notebooks, and pandas tables where pandas is installed.

Values are text of strangers: every cell is escaped.
"""

from __future__ import annotations

import html
import importlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from decoder.errors import OutputError
from rappor_core.text import visible

MOST_ROWS = 50
MOST_CHARACTERS = 200


def html_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], notes: Sequence[str] = ()
) -> str:
    """An HTML table of the first rows, with notes below it."""
    head = "".join(f"<th>{_escaped(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{_escaped(cell)}</td>" for cell in row) + "</tr>"
        for row in rows[:MOST_ROWS]
    )
    left = [f"{len(rows) - MOST_ROWS:,} more rows"] if len(rows) > MOST_ROWS else []
    below = "".join(f"<p>{_escaped(text)}</p>" for text in [*left, *notes])
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<p><b>{_escaped(title)}</b></p>{table}{below}"


def _escaped(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:.4g}" if math.isfinite(cell) else ""
    text = "" if cell is None else str(cell)
    if len(text) > MOST_CHARACTERS:
        text = text[:MOST_CHARACTERS] + "\N{HORIZONTAL ELLIPSIS}"
    return html.escape(visible(text))


def to_frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Any:
    """The rows as a pandas.DataFrame. Raises OutputError where pandas is not installed."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError as error:
        raise OutputError("pandas is not installed: pip install pandas") from error
    return pandas.DataFrame([dict(row) for row in rows], columns=list(columns))


class NotebookTable:
    """Adds the notebook view of a map, and `to_frame` with a row for each cell."""

    def _columns(self: Any) -> dict[str, list[Any]]:
        names = ("shares", "estimate", "std_error", "low", "high", "detected")
        columns = {name: getattr(self, name).tolist() for name in names}
        return {"cell": list(self.cells), **columns}

    def to_frame(self) -> Any:
        """The cells as a pandas.DataFrame, one a row. Raises OutputError where pandas is not
        installed."""
        columns = self._columns()
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return to_frame(rows, list(columns))

    def _repr_html_(self: Any) -> str:
        """As a notebook shows it: the largest shares first."""
        columns = self._columns()
        rows = sorted(zip(*columns.values(), strict=True), key=lambda row: -row[1])
        title = f"Density of {self.metric.name}, {self.slot_text}"
        return html_table(title, list(columns), rows, self.warnings)
