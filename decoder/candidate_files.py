"""Files of candidates: text, CSV or Parquet, gzipped or not. Yields raw entries; no judgement."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator
from itertools import chain
from operator import methodcaller
from pathlib import Path
from typing import BinaryIO, cast

from decoder.errors import CandidatesError

_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")


def read_values(path: Path, column: str | None = None) -> Iterator[str | bytes]:
    """Entries of a file, in order, as text or bytes.

    `.csv[.gz]`: the column named `column`, or the first one (with a header only if `column` is
    given).  `.parquet`: `column`, or the only one.  Anything else: a value a line, LF or CRLF.
    Raises CandidatesError for UTF-16 or a column that is not there; what the libraries raise for
    damaged files passes through (`reading.naming`).
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if ".parquet" in suffixes:
        return _parquet(path, column)
    if ".csv" in suffixes:
        return _csv_column(path, column)
    if column is not None:
        raise CandidatesError(f"this is not a table: it has no column {column!r}")
    return _lines(path)


def _open(path: Path) -> BinaryIO:
    """Open for reading bytes, through gzip where the file starts as gzip does."""
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return cast(BinaryIO, gzip.open(path, "rb")) if zipped else path.open("rb")


def _lines(path: Path) -> Iterator[bytes]:
    with _open(path) as file:
        first = file.readline()
        if first.startswith(_UTF16_BOMS):
            raise CandidatesError("the text is UTF-16; save it as UTF-8")
        lines = chain([first.removeprefix(_BOM)] if first else [], file)
        yield from map(methodcaller("rstrip", b"\r\n"), lines)


def _csv_column(path: Path, column: str | None) -> Iterator[str]:
    with _open(path) as raw:
        text = io.TextIOWrapper(raw, encoding="utf-8-sig", errors="surrogateescape", newline="")
        rows = csv.reader(text)
        index = 0 if column is None else _column_index(next(rows, []), column)
        for row in rows:
            yield row[index] if index < len(row) else ""


def _column_index(header: list[str], column: str) -> int:
    if column not in header:
        raise CandidatesError(
            f"there is no column {column!r}; it has {', '.join(map(repr, header[:20]))}"
        )
    return header.index(column)


def _parquet(path: Path, column: str | None) -> Iterator[str]:
    import pyarrow.parquet as parquet  # 60 ms: only where such a file is read

    file = parquet.ParquetFile(path)
    names = file.schema_arrow.names
    if column is None and len(names) == 1:
        column = names[0]
    if column not in names:
        raise CandidatesError(f"name one of its columns: {', '.join(map(repr, names[:20]))}")
    for batch in file.iter_batches(columns=[column]):
        yield from ("" if value is None else str(value) for value in batch.column(0).to_pylist())
