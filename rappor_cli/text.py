"""Make text of strangers safe to print on a terminal."""

from __future__ import annotations

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
