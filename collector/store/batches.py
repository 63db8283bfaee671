"""Batches that were counted, so that one sent again is not counted again."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, delete, update

from collector.store.models import batches


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
