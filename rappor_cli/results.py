"""The printed form of a result: notes and tables, or JSON."""

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table as TextTable
from rich.text import Text

from decoder.kinds.interface import KindDecoder
from decoder.kinds.result import Result
from decoder.tables.format import short
from decoder.tables.table import Table
from rappor_cli.text import plain, text_table

MAX_ROWS = 25  # the maximum in a printed table; the files have all rows
MAX_LETTERS = 80  # the maximum in a printed cell


def print_result(
    result: Result, kind: KindDecoder, written: Sequence[Path], *, as_json: bool
) -> None:
    """Print a result.

    Args:
        result: The result.
        kind: The decoder for the result's metric kind.
        written: The files of the result, empty if it was not written.
        as_json: Whether to print results.json instead, with the main table if that is not in it.
    """
    if as_json:
        rows = {"rows": result.tables[0].records()} if kind.rows_apart else {}
        print(json.dumps(result.content | rows, allow_nan=False, default=str))
        return
    console = Console()
    for note in result.notes:
        console.print(Text.assemble(("note ", "yellow"), plain(note)), soft_wrap=True)
    for table in result.printed or result.tables:
        if len(table):
            console.print(_table(table))
    if written:
        names = ", ".join(path.name for path in written)
        console.print(Text(f"files in {written[0].parent}: {names}"), soft_wrap=True)


def _table(table: Table) -> TextTable:
    """Return the first rows of a table, for the console."""
    headings, rows = table.shown(MAX_ROWS)
    cells = [[short(cell, MAX_LETTERS) for cell in row] for row in rows]
    result = text_table(table.title, headings, cells)
    if len(table) > MAX_ROWS:
        result.caption = Text(
            f"{MAX_ROWS} of {len(table):,} rows; {table.name}.csv (with -o) has all"
        )
    return result
