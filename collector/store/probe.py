"""Trying whether the database can be read, and written to, without leaving anything in it."""

from __future__ import annotations

import os

from sqlalchemy import Connection, delete, insert

from collector.errors import StorageError
from collector.store.database import Database
from collector.store.models import batches
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
    row = {"batch_hash": mark, "digest": mark, "expires": -1, "num_reports": 0}
    with database.add() as connection:
        _check_commits(database, connection)
        connection.execute(insert(batches).values(**row, results=os.urandom(_TRIAL_BYTES)))
        connection.execute(delete(batches).where(batches.c.batch_hash == mark))


def _check_commits(database: Database, connection: Connection) -> None:
    if database.is_postgresql:
        check_commits(connection)
