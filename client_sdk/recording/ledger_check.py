"""Check that the ledger rows of a state file can be decoded: part of the check for damage."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable

from client_sdk.recording.ledger import Promise, committed, spent
from client_sdk.storage.interface import Entry, Line
from rappor_core.calendar import PERIOD_DAYS


def check_ledger(database: sqlite3.Connection) -> None:
    """Decode all ledger rows that are decoded later. Raises what the parsers raise."""
    query = "SELECT line, digest, params, cost, reports FROM entries"
    entries = [Entry(*row) for row in database.execute(query)]
    for row in database.execute("SELECT * FROM lines"):
        line = Line(*row)
        check_line(line, [entry for entry in entries if entry.line == line.name])
    for (text,) in database.execute("SELECT ledger FROM tombstones WHERE ledger LIKE '{%'"):
        json.loads(text)


def check_line(line: Line, entries: Iterable[Entry]) -> None:
    """Decode one ledger line and its memoised responses. Raises what the parsers raise."""
    promise = Promise.from_json(line.agreed).to_fields()
    if promise.pop("period") not in ("", *PERIOD_DAYS):
        raise ValueError(f"line {line.name!r}")
    numbers = (*promise.values(), *line[2:])
    if any(type(number) not in (int, float) or not number >= 0 for number in numbers):
        raise ValueError(f"line {line.name!r}")
    own = list(entries)
    if any(entry.reports < 0 or not entry.cost > 0 for entry in own):
        raise ValueError(f"entries of {line.name!r}")
    committed(line, own)
    spent(line, own)
