"""Trying whether the database can be read, and written to, without leaving anything in it."""

from __future__ import annotations

import os
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select

from collector.errors import StorageError
from collector.store.database import Database
from collector.store.models import batch_partitions, batches, partitioned_batches
from collector.store.registry import state_version
from rappor_server.database import check_commits

_TRIAL_BYTES = 16 << 10  # more than one page of either database, so that it must find room


def try_to_read(database: Database) -> None:
    """Raises StorageError where it cannot be, or its commits would not last."""
    with database.read() as connection:
        _check_commits(database, connection)
        if state_version(connection) < 0:
            raise StorageError("the database holds no collector")


def try_to_write(database: Database) -> None:
    """Insert a row that nobody sees and delete it, in one transaction that is committed.

    Raises StorageError where that fails, as on a full disk.
    """
    mark = os.urandom(16)
    row: dict[str, Any] = {"batch_hash": mark, "digest": mark, "num_reports": 0}
    newest = select(func.max(batch_partitions.c.id)).scalar_subquery()
    if database.is_postgresql:
        table, row["partition_id"] = partitioned_batches, newest
    else:
        table, row["expires"] = batches, -1
    with database.add() as connection:
        _check_commits(database, connection)
        connection.execute(insert(table).values(**row, results=os.urandom(_TRIAL_BYTES)))
        connection.execute(delete(table).where(table.c.batch_hash == mark))


def _check_commits(database: Database, connection: Connection) -> None:
    if database.is_postgresql:
        check_commits(connection)
