"""Read the files that a release is made of: every refusal names the file, the place in it, and what
is wrong there."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from disclosure.errors import ReleaseError
from rappor_core.errors import WireFormatError, file_problem, shown
from rappor_core.strict_json import parse_strict_json

_BOM = b"\xef\xbb\xbf"  # which spreadsheets write before UTF-8
_MAX_DIGITS = 40  # of a whole number, whose range is checked where it is used


class DamagedFileError(ReleaseError):
    """A file that is not as its command writes it; the reader of the folder adds the way out."""


@dataclass(frozen=True)
class CsvRow:
    """A row of a CSV file: text by column, and its line in the file."""

    path: Path
    line: int
    cells: Mapping[str, str]

    def text(self, column: str) -> str:
        """The text of a column."""
        return self.cells[column]

    def number(self, column: str) -> float:
        """A finite number. Raises DamagedFileError."""
        text = self.cells[column]
        try:
            number = math.nan if "_" in text else float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise self.refused(column, f"{shown(text)} is not a finite number")
        return number

    def count(self, column: str) -> int:
        """A whole number of 0 or more. Raises DamagedFileError."""
        text = self.cells[column]
        if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS):
            raise self.refused(column, f"{shown(text)} is not a whole number of 0 or more")
        return int(text)

    def flag(self, column: str) -> bool:
        """`true` or `false`, which spreadsheets write in capitals. Raises DamagedFileError."""
        text = self.cells[column].lower()
        if text not in ("true", "false"):
            raise self.refused(column, f"{shown(self.cells[column])} is neither true nor false")
        return text == "true"

    def day(self, column: str) -> date:
        """A day. Raises DamagedFileError."""
        found = _day_of(self.cells[column])
        if found is None:
            raise self.refused(column, f"{shown(self.cells[column])} is not a day, as 2026-11-02")
        return found

    def refused(self, column: str, told: str) -> DamagedFileError:
        """The error for a cell."""
        return DamagedFileError(f"{self.path}, line {self.line}, column {column}: {told}")


def read_csv(path: Path, columns: Collection[str]) -> list[CsvRow]:
    """Read a CSV file with a header, UTF-8 with or without a byte order mark.

    Args:
        path: of the file.
        columns: that it must have; others are passed over.

    Returns:
        Its rows.

    Raises:
        DamagedFileError: it cannot be read, or a column is missing.
    """
    content = _bytes(path).removeprefix(_BOM)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DamagedFileError(f"{path}, line {line}: it is not UTF-8") from None
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        return list(_rows(path, lines, columns))
    except csv.Error:
        raise DamagedFileError(f"{path}, line {lines.line_num}: it is not CSV") from None


def _rows(path: Path, lines: Any, columns: Collection[str]) -> Iterator[CsvRow]:
    header: Sequence[str] = next(lines, [])
    missing = [name for name in columns if name not in header]
    if missing:
        raise DamagedFileError(f"{path}, line 1: there is no column {', '.join(missing)}")
    if len(set(header)) < len(header):
        raise DamagedFileError(f"{path}, line 1: a column stands twice")
    for cells in lines:
        if cells and len(cells) != len(header):
            raise DamagedFileError(
                f"{path}, line {lines.line_num}: {len(cells)} columns, where the header has "
                f"{len(header)}"
            )
        if cells:
            yield CsvRow(path, lines.line_num, dict(zip(header, cells, strict=True)))


@dataclass(frozen=True)
class JsonPart:
    """A value in a JSON file. where: its place, as `summary.num_reports`; "" for the whole."""

    path: Path
    content: Any
    where: str = ""

    def at(self, *keys: str) -> JsonPart:
        """A value in it; null is none. Raises DamagedFileError where it is missing."""
        found = self._optional(*keys)
        if found.content is None:
            raise DamagedFileError(f"{self.path}: {found.where} is missing")
        return found

    def items(self, key: str) -> list[JsonPart]:
        """The values of a list in it. Raises DamagedFileError."""
        found = self.at(key)
        if not isinstance(found.content, list):
            raise found.refused("a list")
        return [JsonPart(self.path, one, f"{found.where}[{place}]")
                for place, one in enumerate(found.content)]  # fmt: skip

    def text(self, *keys: str) -> str:
        """A text in it. Raises DamagedFileError."""
        found = self.at(*keys)
        if not isinstance(found.content, str):
            raise found.refused("a text")
        return found.content

    def number(self, *keys: str) -> float:
        """A finite number in it. Raises DamagedFileError."""
        found = self.at(*keys)
        try:
            number = float(found.content) if type(found.content) in (int, float) else math.nan
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise found.refused("a finite number")
        return number

    def count(self, *keys: str) -> int:
        """A whole number in it. Raises DamagedFileError."""
        found = self.at(*keys)
        if type(found.content) is not int:
            raise found.refused("a whole number")
        return found.content

    def flag(self, *keys: str) -> bool:
        """`true` or `false` in it. Raises DamagedFileError."""
        found = self.at(*keys)
        if type(found.content) is not bool:
            raise found.refused("true or false")
        return found.content

    def day(self, *keys: str) -> date | None:
        """A day in it; None where it is not known. Raises DamagedFileError."""
        found = self._optional(*keys)
        if found.content is None:
            return None
        day = _day_of(found.content)
        if day is None:
            raise found.refused("a day, as 2026-11-02")
        return day

    def refused(self, kind: str) -> DamagedFileError:
        """The error for a value of another kind."""
        return DamagedFileError(f"{self.path}: {self.where} = {shown(self.content)} is not {kind}")

    def _optional(self, *keys: str) -> JsonPart:
        """A value in it, of content None where it is missing."""
        found, where = self.content, self.where
        for key in keys:
            where = f"{where}.{key}" if where else key
            found = found.get(key) if isinstance(found, dict) else None
        return JsonPart(self.path, found, where)


def read_json(path: Path) -> JsonPart:
    """Read a JSON file. Raises DamagedFileError."""
    content = _bytes(path).removeprefix(_BOM)
    try:
        return JsonPart(path, parse_strict_json(content))
    except WireFormatError as error:
        raise DamagedFileError(f"{path}: {error}") from None


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DamagedFileError(f"{path}: {file_problem(error)}") from None


def _day_of(text: object) -> date | None:
    try:
        day = date.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return day if day is not None and day.isoformat() == text else None
