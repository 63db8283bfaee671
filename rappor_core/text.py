"""Text of strangers, made fit to be shown: values and names come from files and devices."""

from __future__ import annotations

import unicodedata

_JOINERS = "\u200c\u200d"  # of letters in Persian, of emoji


def visible(text: str) -> str:
    """The text with escapes for what could steer a terminal, turn its writing, or hide.

    Control, format (the bidirectional marks among them), surrogate and unassigned characters,
    but the two that join letters and emoji.
    """
    return text if text.isascii() and text.isprintable() else "".join(map(_visible, text))


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the plural but for 1."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _visible(character: str) -> str:
    if unicodedata.category(character).startswith("C") and character not in _JOINERS:
        return character.encode("unicode_escape").decode("ascii")
    return character
