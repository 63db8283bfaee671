"""Try whether the database can be read and written, without leaving anything in it."""

from __future__ import annotations

import os
from typing import Any

from sqlalchemy import Connection, func, select

from collector.errors import StorageError
from collector.store.database import CollectorDatabase
from collector.store.models import batch_partitions, batches, partitioned_batches
from collector.store.registry import state_version
from rappor_server.database import check_commits


def try_to_read(database: CollectorDatabase) -> None:
    """Read from the database. Raises StorageError where that fails, or its commits would not
    last."""
    with database.read() as connection:
        _check_commits(database, connection)
        if state_version(connection) < 0:
            raise StorageError("the database holds no collector")


def try_to_write(database: CollectorDatabase) -> None:
    """Insert and delete a row as large as a large batch in a committed transaction.

    Raises StorageError where that fails, as on a full disk.
    """
    mark = os.urandom(16)
    row: dict[str, Any] = {"batch_hash": mark, "digest": mark, "num_reports": 0}
    if database.is_postgresql:
        row["partition_id"] = select(func.max(batch_partitions.c.id)).scalar_subquery()
        database.try_to_write(partitioned_batches, row, "results")
    else:
        database.try_to_write(batches, row | {"expires": -1}, "results")


def _check_commits(database: CollectorDatabase, connection: Connection) -> None:
    if database.is_postgresql:
        check_commits(connection)
