"""Print on a terminal: text of strangers made safe, notes, plain tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from rappor_core.text import visible

_WIDTH = 320  # columns: no table of figures has more


def plain(value: str) -> Text:
    """Text for the terminal without markup; control characters and characters that change the
    writing direction are shown escaped."""
    return Text(visible(value))


def print_note(text: str) -> None:
    """A note on stderr: what a job left out or took."""
    Console(stderr=True).print(Text.assemble(("note ", "yellow"), plain(text)), soft_wrap=True)


def wide_console() -> Console:
    """A console that is as wide as a table of figures needs, wider than the terminal if it must
    be."""
    return Console(width=max(Console().width, _WIDTH))


def print_columns(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text under their headings; the last column is not padded."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    for row in (headings, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
