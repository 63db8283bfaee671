"""Safe display of untrusted text, such as values and names from files and devices."""

import re
import unicodedata

_JOINERS = "\u200c\u200d"  # join letters in Persian, and parts of emoji
# Characters that make a spreadsheet compute a cell, in ASCII, full-width and small forms, at the
# start of a cell or after a separator that some programs accept. Spaces or quotes may precede them.
FORMULA_CHARACTERS = "=+\\-@\\t\\r\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u2212"
FINITE_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_STARTS = re.compile(rf"(^|[;|\t\n])([\s\"]*)(?=[{FORMULA_CHARACTERS}])")


def visible(text: str) -> str:
    """Escape all characters that control a terminal, reorder text or are invisible.

    These are control, format (such as bidirectional marks), surrogate and unassigned characters,
    except the two that join letters and emoji.
    """
    return text if text.isascii() and text.isprintable() else "".join(map(_visible, text))


def safe_cell(text: str) -> str:
    """Return a text that is safe in a CSV file, without hidden characters and formulas.

    A text that begins like a formula, or with an apostrophe, is prefixed with an apostrophe. So is
    a formula after a semicolon. A finite number is unchanged.
    """
    if FINITE_NUMBER.fullmatch(text):
        return text
    return visible(f"'{text}" if text.startswith("'") else without_formula(text))


def without_formula(text: str) -> str:
    """Insert an apostrophe in a CSV cell before anything that a spreadsheet would compute.

    A formula can begin the cell, or follow a semicolon: in some countries a semicolon ends a cell,
    even within the quotes of a cell that does not begin its line.
    """
    return _STARTS.sub(r"\1'\2", text)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural except for 1.

    Args:
        number: Any integer.
        noun: The noun in the singular.

    Returns:
        Text such as `1,200 reports`.
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _visible(character: str) -> str:
    if unicodedata.category(character).startswith("C") and character not in _JOINERS:
        return character.encode("unicode_escape").decode("ascii")
    return character
