"""A strict reader of tables from users: CSV in UTF-8, optionally gzipped.

Nothing is guessed. The delimiter is the character with which the header contains the wanted names,
or a comma if there is no header. An invalid cell is rejected with its line and column."""

import csv
import gzip
import io
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO, TypeAlias, cast

from decoder.errors import MissingColumnError, TableFileError
from rappor_core.errors import shown

Column: TypeAlias = str | int  # its name, or its number from 1 without a header

DELIMITERS = (",", ";", "\t")
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_GZIP = b"\x1f\x8b"
_NUMBER = re.compile(r" *[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)? *", re.ASCII)
_WHOLE = re.compile(r" *-?\d{1,18} *", re.ASCII)
_INVISIBLE = frozenset(("Zs", "Zl", "Zp", "Cc", "Cf"))  # Unicode categories: blanks and marks
_SHOWN_COLUMNS = 20
NOT_UTF8 = "is not UTF-8"


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table."""

    line: int  # The row's last line in the file, from 1
    cells: Mapping[Column, str]  # Text by column

    def text(self, column: Column, *, strip: bool = False) -> str:
        """Return a cell's text, or "" if empty; with `strip`, without leading or trailing spaces.

        Raises TableFileError if it is not UTF-8, or begins or ends with an invisible character."""
        text = self.cells[column].strip() if strip else self.cells[column]
        if problem := text_problem(text):
            raise self.refused(column, f"{shown(text)} {problem}")
        return text

    def raw(self, column: Column) -> str:
        """Return a cell's text unchanged. Raises TableFileError if it is not UTF-8."""
        text = self.cells[column]
        if not text.isprintable() and text_problem(text) == NOT_UTF8:
            raise self.refused(column, f"{shown(text)} {NOT_UTF8}")
        return text

    def number(self, column: Column, low: float = -math.inf, high: float = math.inf) -> float:
        """Return a finite number from `low` to `high`. Raises TableFileError otherwise."""
        text = self.cells[column]
        if not _NUMBER.fullmatch(text) or not math.isfinite(float(text)):
            raise self.refused(
                column,
                f"{shown(text)} is not a number: write digits and a point, as 4227.5, without "
                "thousands separators or a decimal comma",
            )
        if not low <= float(text) <= high:
            bounds = f"of {low:g} or more" if high == math.inf else f"from {low:g} to {high:g}"
            raise self.refused(column, f"{shown(text)} is not a number {bounds}")
        return float(text)

    def whole_number(self, column: Column) -> int:
        """Return an integer of at most 18 digits. Raises TableFileError otherwise."""
        text = self.cells[column]
        if not _WHOLE.fullmatch(text):
            raise self.refused(column, f"{shown(text)} is not a whole number of at most 18 digits")
        return int(text)

    def flag(self, column: Column) -> bool:
        """Return whether a cell is `true` (or `false`), ignoring case. Raises TableFileError."""
        if self.cells[column].lower() not in ("true", "false"):
            raise self.refused(column, f"{shown(self.cells[column])} is neither true nor false")
        return self.cells[column].lower() == "true"

    def refused(self, column: Column, problem: str) -> TableFileError:
        """Return the error for a cell."""
        name = column if isinstance(column, int) else shown(column)
        return TableFileError(f"line {self.line}, column {name}: {problem}")


def text_problem(text: str) -> str | None:
    """Describe a defect that device text cannot have, such as a leading space; None if valid."""
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        return NOT_UTF8
    if text and {unicodedata.category(end) for end in (text[0], text[-1])} & _INVISIBLE:
        return "begins or ends with a blank or an invisible character; remove it"
    return None


def read_table(path: Path, columns: Sequence[str], *, every_line: bool = False) -> Iterator[Row]:
    """Yield the rows under a header that names `columns`; other columns are ignored.

    Args:
        path: The file.
        columns: The names of the columns to read.
        every_line: Whether to reject an empty line in a one-column table, because it may be a row.

    Raises:
        MissingColumnError: The header lacks a wanted column.
        TableFileError: The file is not a valid table.
    """
    with opened(path) as file, _decoded(file) as text:
        first = text.readline()
        headers = {mark: next(csv.reader([first], delimiter=mark), []) for mark in DELIMITERS}
        fits = (mark for mark, header in headers.items() if set(columns) <= set(header))
        delimiter = next(fits, ",")
        header = headers[delimiter]
        if missing := [name for name in columns if name not in header]:
            names = ", ".join(map(repr, header[:_SHOWN_COLUMNS])) or "no header"
            raise MissingColumnError(f"no column {', '.join(map(repr, missing))}; it has {names}")
        for name in columns:
            if header.count(name) > 1:
                raise TableFileError(f"line 1: column {name!r} is repeated")
        rows = _rows(chain([first], text), delimiter)
        next(rows)
        for line, cells in rows:
            if not cells and every_line and len(header) == 1:
                raise TableFileError(f'line {line} is empty; write "" for an empty cell')
            if cells:
                _check_width(line, cells, len(header))
                yield Row(line, dict(zip(header, cells, strict=True)))


def read_rows(path: Path, *, delimiter: str = ",", ragged: bool = False) -> Iterator[Row]:
    """Yield the rows of a table without a header; columns are numbered from 1.

    Args:
        path: The file.
        delimiter: The character between columns.
        ragged: Whether rows may have different numbers of cells.

    Raises:
        TableFileError: The file is not a valid table.
    """
    width = None
    with opened(path) as file, _decoded(file) as text:
        for line, cells in _rows(text, delimiter):
            if cells:
                width = len(cells) if width is None or ragged else width
                _check_width(line, cells, width)
                yield Row(line, dict(enumerate(cells, start=1)))


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file, possibly a pipe, to read its bytes once, decompressed if it is gzipped.

    Raises TableFileError if the text is UTF-16, or if only the file's name indicates gzip."""
    with path.open("rb") as file, ExitStack() as stack:
        content = file
        if file.peek(2)[:2] == _GZIP:
            content = cast(io.BufferedReader, stack.enter_context(gzip.open(file, "rb")))
        elif path.name.lower().endswith(".gz"):
            raise TableFileError("this is not gzip, although its name ends in .gz; rename it")
        if content.peek(2)[:2] in _UTF16_BOMS:
            raise TableFileError("the text is UTF-16; save it as UTF-8")
        yield content


def _decoded(file: BinaryIO) -> io.TextIOWrapper:
    return io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")


def _rows(lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        for cells in rows:
            yield rows.line_num, cells
    except csv.Error as error:
        raise TableFileError(f"line {rows.line_num}: {error}; check the quotes") from error


def _check_width(line: int, cells: Sequence[str], width: int) -> None:
    if len(cells) != width:
        raise TableFileError(
            f"line {line} has {len(cells)} cells, and the first line {width}: quote cells with a "
            "comma, and write numbers without one"
        )
