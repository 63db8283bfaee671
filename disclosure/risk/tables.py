"""Reading the identifying columns of a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from disclosure.errors import TableError
from rappor_core.errors import shown
from rappor_core.failures import failure_reason


def read_columns(path: Path, columns: Sequence[str]) -> list[list[str]]:
    """Read some columns of a CSV file with a header.

    Returns: for each column, its values in the order of the rows.
    Raises: TableError for a column that the file has not, and a row of another length.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(file)
            header = next(rows, [])
            indices = [_index_of(header, name, path) for name in columns]
            values = [
                [row[i] for i in indices] if len(row) == len(header) else _refuse(path, number, row)
                for number, row in enumerate(rows, 1)
                if row or len(header) == 1  # of one column: an empty value, and not to be dropped
            ]
    except (csv.Error, UnicodeDecodeError, OSError) as error:
        raise TableError(f"{path}: not CSV in UTF-8: {failure_reason(error)}") from error
    if not values:
        raise TableError(f"{path}: no rows")
    return [list(column) for column in zip(*values, strict=True)]


def _index_of(header: list[str], name: str, path: Path) -> int:
    if header.count(name) != 1:
        raise TableError(f"{path}: {header.count(name)} columns are named {shown(name)}, not one")
    return header.index(name)


def _refuse(path: Path, number: int, row: list[str]) -> list[str]:
    raise TableError(f"{path}: row {number} has {len(row)} fields, unlike the header")
