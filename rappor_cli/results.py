"""Print a result: notes and tables, or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from decoder.kinds.interface import KindDecoder
from decoder.kinds.result import Result
from decoder.tables import table as tables
from decoder.tables.format import short
from rappor_cli.text import plain

MAX_ROWS = 25  # of a table; the files have all
MAX_LETTERS = 80  # of a cell
_UNCUT = 14  # letters of a cell, such as a date, that no narrow terminal breaks


def print_result(
    result: Result, kind: KindDecoder, written: Sequence[Path], *, as_json: bool
) -> None:
    """Print what was found.

    Args:
        result: the result.
        kind: that it is of.
        written: its files, none if it was not written.
        as_json: whether to print results.json instead, with the main table if that is not in it.
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
            console.print(_as_rich(table))
    if written:
        names = ", ".join(path.name for path in written)
        console.print(Text(f"files in {written[0].parent}: {names}"), soft_wrap=True)


def _as_rich(table: tables.Table) -> Table:
    headings, rows = table.shown(MAX_ROWS)
    cells = [[short(cell, MAX_LETTERS) for cell in row] for row in rows]
    made = Table(title=plain(table.title))
    for number, heading in enumerate(headings):
        is_narrow = max(len(row[number]) for row in cells) <= _UNCUT
        made.add_column(plain(heading), justify="right" if number else "left", overflow="fold",
                        no_wrap=is_narrow)  # fmt: skip
    for row in cells:
        made.add_row(*map(Text, row))
    if len(table) > MAX_ROWS:
        made.caption = Text(
            f"{MAX_ROWS} of {len(table):,} rows; {table.name}.csv (with -o) has all"
        )
    return made
