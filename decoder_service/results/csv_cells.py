"""CSV for download, in which no cell is a formula that a spreadsheet computes.

Values are text of strangers. What a spreadsheet that opens a CSV file would compute gets an
apostrophe before it, unless the cell is a number. The stored bytes stay as they are.
"""

from __future__ import annotations

import csv
import io
import re
import sys

from rappor_core.text import without_formula

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|nan)", re.ASCII)
_QUOTED = re.compile(r'[",;\t\r\n]')


def without_formulas(content: bytes) -> bytes:
    """A CSV table with an apostrophe before each cell that a spreadsheet would compute.

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
    if not _NUMBER.fullmatch(value):
        value = without_formula(value)
    if _QUOTED.search(value):
        return '"' + value.replace('"', '""') + '"'
    return value
