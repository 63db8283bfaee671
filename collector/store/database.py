"""The collector's database: its `Program`, its writers' locks, and a check that it is writable."""

import os
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, Engine

from collector.store.models import batches, metadata
from collector.store.registry import state_version
from rappor_server import backup, database
from rappor_server.database import Program
from rappor_server.errors import StorageError

# PostgreSQL advisory locks, with fixed numbers. Transactions that add reports share the gate;
# closing days or changing metrics locks it exclusively. The second lock serializes counter updates.
GATE_LOCK = 0x7261_7070_6F72
MIGRATION_LOCK = GATE_LOCK + 1
FOLD_LOCK = GATE_LOCK + 2
COUNTERS_LOCK = GATE_LOCK + 3

MIGRATIONS = Path(__file__).parent.parent / "migrations"
COLLECTOR = Program(
    name="collector",
    table="counters",
    metadata=metadata,
    migrations=MIGRATIONS,
    migration_lock=MIGRATION_LOCK,
    shares_database=True,
)

back_up = partial(backup.back_up, program=COLLECTOR)
restore = partial(backup.restore, program=COLLECTOR)
served_alone = partial(database.alone_on_sqlite, process="collector")


class CollectorDatabase(database.Database):
    """The collector's database and its types of transactions."""

    def __init__(self, engine: Engine, *, max_seconds: float = 120.0) -> None:
        super().__init__(engine, COLLECTOR, max_seconds=max_seconds)

    def add(self) -> AbstractContextManager[Connection]:
        """Return a transaction that adds rows; on PostgreSQL, many run at once.

        Adding reports acquires the gate first (`store.group_commit`), so that it never overlaps
        `change`.
        """
        return self._transaction(writes=True)

    def change(self) -> AbstractContextManager[Connection]:
        """Return an exclusive transaction that closes days or changes metrics and keys."""
        return self.locked(f"pg_advisory_xact_lock({GATE_LOCK})")

    def fold(self) -> AbstractContextManager[Connection]:
        """Return a transaction that moves closed days' counters, one at a time, among reports."""
        return self.locked(
            f"pg_advisory_xact_lock({FOLD_LOCK})", f"pg_advisory_xact_lock_shared({GATE_LOCK})"
        )


def check_writable(database: CollectorDatabase) -> None:
    """Insert and delete a row as large as a large batch in a committed transaction.

    Raises StorageError if that fails, such as on a full disk, or if the database is not a
    collector's.
    """
    with database.read() as connection:
        if state_version(connection) < 0:
            raise StorageError("the database is not a collector's")
    mark = os.urandom(16)
    row = {"batch_hash": mark, "digest": mark, "num_reports": 0, "expires": -1}
    database.try_to_write(batches, row, "results")
