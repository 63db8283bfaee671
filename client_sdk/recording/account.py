"""The numbers that outlive a secret, read from a state that is damaged or cannot be written.
Rarely loaded.

Numbers and first promises only: no secret, no value, no digest. Each row is read by itself, and
left out where it is damaged.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from client_sdk.recording.ledger import check_line, past
from client_sdk.storage.damage import PARSERS
from client_sdk.storage.interface import Entry, Line
from client_sdk.storage.sqlite import ENTRIES
from rappor_core.calendar import PERIOD_DAYS

Row = tuple[Any, ...]
MOST = 1 << 62  # a number above is damage
TABLES = {
    "periods": (str, int, int),
    "used_up": (str, int, int),
    "counters": (str, int),
    "tombstones": (int, int, str, str),
}
LINE = (str, str, int, float, float, int)


class Account:
    """The rows of a state that outlive its secret, by table."""

    def __init__(self, tables: dict[str, list[Row]]) -> None:
        """tables: `lines`, `meta` without the secret, and those of TABLES."""
        self._tables = tables

    def write(self, database: sqlite3.Connection) -> None:
        """Enter the rows in a new state, as of a device that had a secret once."""
        for table, rows in self._tables.items():
            for row in rows:
                marks = ", ".join("?" * len(row))
                # names are those of this SDK's own tables
                database.execute(f"INSERT INTO {table} VALUES ({marks})", row)  # noqa: S608
        database.execute("INSERT INTO meta VALUES ('generation', 1)")


def read_account(path: str) -> Account | None:
    """Read what is legible of the state at `path`; None where it is no state, or another process
    holds it whole.

    Nothing is written, where SQLite can read without.
    """
    if not os.path.exists(path):
        return None
    for exclusive in (False, True):  # the latter makes no file beside it, for which room may lack
        with closing(sqlite3.connect(path, timeout=0.05, isolation_level=None)) as database:
            try:
                if exclusive:
                    database.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
                database.execute("SELECT 1 FROM meta").fetchone()
                return _read(database)
            except sqlite3.Error:
                continue
    return None


def _read(database: sqlite3.Connection) -> Account:
    tables = {name: list(_rows(database, name, _is_sound(name))) for name in TABLES}
    meta = list(_rows(database, "meta", _outlives))
    lines = []
    for row in _rows(database, "lines", lambda row: tuple(map(type, row)) == LINE):
        line = Line(*row)
        try:
            check_line(line, entries := _entries(database, line.name))
            lines.append(tuple(past(line, entries)))
        except PARSERS:
            continue
    return Account({**tables, "meta": meta, "lines": lines})


def _entries(database: sqlite3.Connection, line: str) -> list[Entry]:
    try:
        return [Entry(*row) for row in database.execute(ENTRIES, (line,))]
    except sqlite3.Error:
        return []


def _rows(
    database: sqlite3.Connection, table: str, is_sound: Callable[[Row], bool]
) -> Iterator[Row]:
    """The sound rows of a table, up to a page that cannot be read."""
    try:
        yield from filter(is_sound, database.execute(f"SELECT * FROM {table}"))  # noqa: S608 (TABLES)
    except sqlite3.Error:
        return


def _is_sound(table: str) -> Callable[[Row], bool]:
    """Whether a row has the types of its columns, counts from 0 on, and JSON that is JSON."""

    def sound(row: Row) -> bool:
        if tuple(map(type, row)) != TABLES[table]:
            return False
        if table == "tombstones":
            return _is_legible(row[3])
        return 0 <= row[-1] < MOST and all(cell >= -1 for cell in row[1:])

    return sound


def _is_legible(ledger: str) -> bool:
    try:
        return not ledger.startswith("{") or isinstance(json.loads(ledger), dict)
    except PARSERS:
        return False


def _outlives(row: Row) -> bool:
    """Of the table `meta`: the budget, and the units in which reports are counted."""
    name, value = row
    if name == "budget":
        return type(value) is float and value > 0
    return str(name).startswith("unit:") and value in PERIOD_DAYS
