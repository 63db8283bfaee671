"""Print plain tables: a line of headings, columns of one width."""

from __future__ import annotations

from collections.abc import Sequence


def print_columns(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text under their headings; the last column is not padded."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    for row in (headings, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
