"""CSV as it is downloaded: no cell is a formula of a spreadsheet.

Values are text of strangers. A spreadsheet that opens a CSV file computes cells that begin with
= + - @ (or their full-width forms) or with a tab or line break. Such a cell gets an apostrophe
before it, unless it is a number. The stored bytes stay as they are.
"""

from __future__ import annotations

import csv
import io
import re
import sys

_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|nan)", re.ASCII)
_QUOTED = re.compile(r'[",;\t\r\n]')


def without_formulas(content: bytes) -> bytes:
    """The same table, with an apostrophe before each cell that a spreadsheet would compute.

    content: CSV, UTF-8; bytes that are none are kept.
    """
    text = io.StringIO(content.decode("utf-8", "surrogateescape"), newline="")
    before = csv.field_size_limit(sys.maxsize)  # a value may be longer than the library's 131,072
    try:
        lines = [",".join(map(_cell, row)) + "\n" for row in csv.reader(text)]
    finally:
        csv.field_size_limit(before)  # of the whole process: others refuse what is longer
    return "".join(lines).encode("utf-8", "surrogateescape")


def _cell(value: str) -> str:
    if value.startswith(_FORMULA) and not _NUMBER.fullmatch(value):
        value = f"'{value}"
    if _QUOTED.search(value):  # ; is a separator for spreadsheets of some countries
        return '"' + value.replace('"', '""') + '"'
    return value
