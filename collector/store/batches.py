"""Batches that were counted, so that one sent again is not; and raw reports where asked for."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, insert, update

from collector.store.models import batches, raw_reports


class BatchRow(NamedTuple):
    """batch_id, digest: 16 bytes.  expires: the last day on which one of its days may be open.

    results: a code for each report, or empty where all were accepted.
    """

    batch_id: bytes
    digest: bytes
    expires: int
    num_reports: int
    results: bytes


def forget_batches(connection: Connection, today: int) -> int:
    """Delete those whose days are all closed; return how many."""
    return connection.execute(delete(batches).where(batches.c.expires < today)).rowcount


def prolong_batches(connection: Connection, days: int) -> None:
    """Remember all batches for so many days longer, because days stay open for longer."""
    connection.execute(update(batches).values(expires=batches.c.expires + days))


def keep_raw(connection: Connection, rows: list[dict[str, Any]]) -> None:
    """Insert raw reports, in the order of their random marks."""
    if rows:
        connection.execute(insert(raw_reports), sorted(rows, key=lambda row: row["mark"]))


def delete_raw(connection: Connection, series_id: int, before: int) -> int:
    """Delete the raw reports of a series of days before `before`; return how many."""
    old = (raw_reports.c.series_id == series_id, raw_reports.c.day < before)
    return connection.execute(delete(raw_reports).where(*old)).rowcount
