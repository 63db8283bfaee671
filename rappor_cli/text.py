"""Text of strangers on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from rappor_core.text import visible

_WIDTH = 320  # columns: no table of figures has more


def plain(value: str) -> Text:
    """Text without markup; what could steer a terminal or turn its writing is shown escaped."""
    return Text(visible(value))


def print_note(text: str) -> None:
    """A note on stderr: what a job left out or took."""
    Console(stderr=True).print(Text.assemble(("note ", "yellow"), plain(text)), soft_wrap=True)


def wide_console() -> Console:
    """For tables of figures, which are not to be cut: wider than the terminal where they must."""
    return Console(width=max(Console().width, _WIDTH))
