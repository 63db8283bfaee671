"""Text of strangers, made fit to be shown: values and names come from files and devices."""

import re
import unicodedata

_JOINERS = "\u200c\u200d"  # of letters in Persian, of emoji
# What a spreadsheet computes, in ASCII, full width and small forms, at the start of a cell or after
# what some read as the end of one; spaces and quotes before it are passed over.
FORMULA_CHARACTERS = "=+\\-@\\t\\r\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u2212"
FINITE_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_STARTS = re.compile(rf"(^|[;|\t\n])([\s\"]*)(?=[{FORMULA_CHARACTERS}])")


def visible(text: str) -> str:
    """Return the text with escapes for characters that steer a terminal, turn the writing, or hide.

    Control, format (the bidirectional marks among them), surrogate and unassigned characters,
    but the two that join letters and emoji.
    """
    return text if text.isascii() and text.isprintable() else "".join(map(_visible, text))


def safe_cell(text: str) -> str:
    """Return a text for a CSV file: no hidden characters, and nothing that a spreadsheet computes.

    A text that begins as a formula does, or with an apostrophe, gets an apostrophe before it, and
    so does what begins so after a semicolon. A finite number stays as it is.
    """
    if FINITE_NUMBER.fullmatch(text):
        return text
    return visible(f"'{text}" if text.startswith("'") else without_formula(text))


def without_formula(text: str) -> str:
    """Return a cell of a CSV file with an apostrophe before what a spreadsheet would compute.

    That begins the cell, or what some read as the next one: in some countries a semicolon ends a
    cell, also within the quotes of one that does not begin its line.
    """
    return _STARTS.sub(r"\1'\2", text)


def counted(number: int, noun: str) -> str:
    """Write a number with its noun, in the plural except for 1.

    Args:
        number: Any integer.
        noun: In the singular.

    Returns:
        Text such as `1,200 reports`.
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _visible(character: str) -> str:
    if unicodedata.category(character).startswith("C") and character not in _JOINERS:
        return character.encode("unicode_escape").decode("ascii")
    return character
