"""Terminal output: safe untrusted text, notes, tables and rows."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rappor_core.text import visible

UNBROKEN = 14  # a name of at most this many letters is never wrapped


def plain(value: str) -> Text:
    """Return text for the terminal, without markup and with unsafe characters escaped.

    Control characters and characters that change the writing direction are unsafe.
    """
    return Text(visible(value))


def print_note(text: str) -> None:
    """Print a note to stderr, such as on data that a job skipped."""
    Console(stderr=True).print(Text.assemble(("note ", "yellow"), plain(text)), soft_wrap=True)


def text_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table for the console: its first column left-aligned, the others right-aligned."""
    cells = [list(map(plain, row)) for row in rows]
    table = Table(title=plain(title))
    for number, heading in enumerate(headings):
        is_name = not number and all(len(row[0]) <= UNBROKEN for row in cells)
        table.add_column(plain(heading), justify="right" if number else "left", overflow="fold",
                        no_wrap=is_name)  # fmt: skip
    for row in cells:
        table.add_row(*row)
    return table


def print_columns(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text under their headings; the last column is not padded."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    for row in (headings, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


def print_records(
    records: Sequence[Mapping[str, Any]], columns: Mapping[str, str], *, as_json: bool
) -> None:
    """Print a list of records from a service.

    Args:
        records: The plain values by name.
        columns: The name of the value, by heading; a missing value is printed as "no".
        as_json: Whether to print all records as JSON instead.
    """
    if as_json:
        print(json.dumps(records))
        return
    rows = [["no" if record[name] is None else str(record[name]) for name in columns.values()]
            for record in records]  # fmt: skip
    print_columns(list(columns), rows)
