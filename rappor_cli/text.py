"""Text of strangers on a terminal: values and names come from files and devices."""

from __future__ import annotations

import unicodedata

from rich.text import Text


def plain(value: str) -> Text:
    """Text without markup; what could steer a terminal or turn its writing is shown escaped."""
    return Text("".join(_visible(character) for character in value))


def _visible(character: str) -> str:
    """Control, format (the bidirectional marks among them), surrogate and unassigned characters."""
    if unicodedata.category(character).startswith("C"):
        return character.encode("unicode_escape").decode("ascii")
    return character
