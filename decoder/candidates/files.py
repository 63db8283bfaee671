"""Files of candidates: text, CSV or Parquet, gzipped or not. Yields raw entries; no judgement."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from operator import methodcaller
from pathlib import Path
from typing import BinaryIO, cast

from decoder.errors import CandidatesError
from rappor_core.errors import shown

_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_GZIP = b"\x1f\x8b"


def read_values(path: Path, column: str | None = None) -> Iterator[str | bytes]:
    """Yield the entries of a candidate file, in order, as text or bytes.

    `.csv[.gz]`: the column named `column`, or the first one (with a header only if `column` is
    given).  `.parquet[.gz]`: `column`, or the only one.  `.json[.gz]`: a list of strings.  Anything
    else: a value a line, LF or CRLF.
    Raises CandidatesError for UTF-16, a quote left open, or a column that is not there; what the
    libraries raise for damaged files passes through (`reading.naming`).
    """
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(".parquet"):
        return _parquet(path, column)
    if name.endswith(".csv"):
        return _csv_column(path, column)
    if name.endswith(".json"):
        return _json_list(path, column)
    if column is not None:
        raise CandidatesError(f"this is not a table: it has no column {column!r}")
    return _lines(path)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open for reading bytes, through gzip where the file starts as gzip does.

    The file is opened once: what was read of a pipe would be missing the second time.
    """
    with path.open("rb") as file:
        if file.peek(2)[:2] == _GZIP:
            with gzip.open(file, "rb") as unzipped:
                yield _not_utf16(cast(io.BufferedReader, unzipped))
        elif path.name.lower().endswith(".gz"):
            raise CandidatesError("this is not gzip, although its name ends in .gz; rename it")
        else:
            yield _not_utf16(file)


def _not_utf16(file: io.BufferedReader) -> BinaryIO:
    if file.peek(2)[:2] in _UTF16_BOMS:
        raise CandidatesError("the text is UTF-16; save it as UTF-8")
    return file


def _lines(path: Path) -> Iterator[bytes]:
    with _opened(path) as file:
        first = file.readline().removeprefix(_BOM)
        lines = chain([first] if first else [], file)
        yield from map(methodcaller("rstrip", b"\r\n"), lines)


def _csv_column(path: Path, column: str | None) -> Iterator[str]:
    with _opened(path) as raw:
        text = io.TextIOWrapper(raw, encoding="utf-8-sig", errors="surrogateescape", newline="")
        rows = csv.reader(text, strict=True)
        try:
            index = 0 if column is None else _column_index(next(rows, []), column)
            for row in rows:
                yield row[index] if index < len(row) else ""
        except csv.Error as error:
            raise CandidatesError(f"line {rows.line_num}: {error}; check the quotes") from error


def column_taken(path: Path, column: str | None) -> str | None:
    """Say which of several columns of a CSV file `read_values` takes if none is named.

    None where one was named, where there is only one, and for anything that cannot be read twice.
    """
    if column is not None or not path.is_file():
        return None
    if not path.name.lower().removesuffix(".gz").endswith(".csv"):
        return None
    with _opened(path) as raw:
        text = io.TextIOWrapper(raw, encoding="utf-8-sig", errors="surrogateescape", newline="")
        first = next(csv.reader(text), [])
    if len(first) < 2:
        return None
    return (
        f"{path} has {len(first)} columns; the first is taken, from its first line on "
        f"({shown(first[0])}); name another with --set column=NAME"
    )


def _column_index(header: list[str], column: str) -> int:
    if column not in header:
        raise CandidatesError(
            f"there is no column {column!r}; it has {', '.join(map(repr, header[:20]))}"
        )
    return header.index(column)


def _parquet(path: Path, column: str | None) -> Iterator[str | bytes]:
    import pyarrow.parquet as parquet  # 60 ms: only where such a file is read

    with _opened(path) as raw:
        file = parquet.ParquetFile(raw)
        names = file.schema_arrow.names
        if column is None and len(names) == 1:
            column = names[0]
        if column not in names:
            raise CandidatesError(f"name one of its columns: {', '.join(map(repr, names[:20]))}")
        for batch in file.iter_batches(columns=[column]):
            yield from map(_entry, batch.column(0).to_pylist())


def _json_list(path: Path, column: str | None) -> Iterator[str]:
    if column is not None:
        raise CandidatesError(f"this is a list, not a table: it has no column {column!r}")
    with _opened(path) as raw:
        try:
            content = json.loads(raw.read())
        except (ValueError, RecursionError) as error:
            raise CandidatesError("this is not JSON, although its name says so") from error
    if not isinstance(content, list) or not all(isinstance(value, str) for value in content):
        raise CandidatesError('this JSON is not a list of strings, such as ["a", "b"]')
    yield from content


def _entry(value: object) -> str | bytes:
    """A cell of a table: text, or bytes that may be text, as they are; nothing as an empty one."""
    if isinstance(value, str | bytes):
        return value
    return "" if value is None else str(value)
