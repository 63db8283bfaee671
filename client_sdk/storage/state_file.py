"""A connection to the state file: its transactions, and how long callers wait for them.

An app's own thread may be the one that waits, so no call waits longer than `PATIENCE`, and nothing
waits for the disk while it holds the lock: transactions are committed to the system's cache, and
the sending thread calls `sync` before anything leaves the device.
"""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from client_sdk.errors import StateError
from client_sdk.storage.damage import BUSY, LedgerCheck, busy, check_contents, reading
from client_sdk.storage.schema import BUSY_SECONDS, connect, wait_for

PATIENCE = 0.05  # seconds for which a call waits for other threads, and for other processes
MAX_LOG_BYTES = 4 << 20
UNSCRUBBED = "unscrubbed"  # of the mark in the table `meta`


class StateFile:
    """One connection to a state file. For any thread."""

    def __init__(
        self, path: str, lock: threading.RLock, patience: float = PATIENCE, *, is_new: bool = False
    ) -> None:
        """Open or create the file.

        Args:
            path: Absolute path of the file.
            lock: Shared by all connections of this process to the file.
            patience: Seconds for which a call waits for other threads.
            is_new: The file may still have to be made, by this process or another: its opening
                waits longer.

        Raises:
            StateError: The file cannot be opened, or another process holds it.
        """
        self.path = path
        self.lock = lock
        self._checkpointing = threading.Lock()
        self._closed = False
        self._patience = patience
        with reading(path):
            self._open: sqlite3.Connection | None = connect(
                path, BUSY_SECONDS if is_new else PATIENCE
            )
            wait_for(self._open, PATIENCE)

    @property
    def database(self) -> sqlite3.Connection:
        """The connection; made again after `suspend`. Take `lock` first."""
        if self._open is None:
            if self._closed:
                raise StateError("the client is closed", "closed")
            with reading(self.path):
                self._open = connect(self.path, PATIENCE)
        return self._open

    def check(self, check_ledger: LedgerCheck | None = None) -> None:
        """Read the whole file once. Raises StateError for damage."""
        with self._locked():
            check_contents(self.database, self.path, check_ledger)

    @contextmanager
    def patient(self) -> Iterator[None]:
        """Wait longer for other processes within the block, as a first start does."""
        with self._locked():
            wait_for(self.database, BUSY_SECONDS)
            try:
                yield
            finally:
                wait_for(self.database, PATIENCE)

    def suspend(self) -> None:
        """Close the connection until it is needed: SQLite's must not be carried over a fork.

        What was committed stays.
        """
        with self.lock, self._checkpointing:
            database, self._open = self._open, None
            if database is not None:
                database.close()

    def close(self) -> None:
        """Close the connection permanently."""
        with self.lock:
            self._closed = True
            self.suspend()

    def _acquire(self, patience: float | None = None) -> None:
        """Acquire `lock`. Raises StateBusyError after `patience` seconds, or the connection's."""
        if self.lock.acquire(False):
            return
        if not self.lock.acquire(timeout=self._patience if patience is None else patience):
            raise busy(self.path)

    def _translated(self, error: sqlite3.OperationalError) -> Exception:
        """Return a StateBusyError where SQLite waited in vain; otherwise the error itself."""
        is_busy = getattr(error, "sqlite_errorcode", 0) & 0xFF in BUSY
        return busy(self.path) if is_busy else error

    @contextmanager
    def _locked(self, patience: float | None = None) -> Iterator[None]:
        """Surround statements of this connection."""
        self._acquire(patience)
        try:
            yield
        except sqlite3.OperationalError as error:
            raise self._translated(error) from error
        finally:
            self.lock.release()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction that excludes other threads and processes, or a part of an outer one.

        What is committed survives the end of the process, and a loss of power once `sync` has
        returned: a loss of power undoes the last transactions, never one before them.
        """
        with self._locked():
            database = self.database
            if database.in_transaction:
                yield database
                return
            try:
                database.execute("BEGIN IMMEDIATE")
                yield database
                database.execute("COMMIT")
            except BaseException:
                self._undo()
                raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Surround reads that must be consistent with each other, without waiting for writers."""
        with self._locked(BUSY_SECONDS):
            if self.database.in_transaction:
                yield
                return
            self.database.execute("BEGIN")
            try:
                yield
            finally:
                self._undo()

    def rows(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """Run a query and return all its rows."""
        with self._locked():
            return self.database.execute(query, values).fetchall()

    def rows_aside(self, query: str) -> list[tuple[Any, ...]]:
        """Run a long query as `rows` does, while other threads record."""
        with self._checkpointing:  # not `lock`: no thread of the app waits
            if self._open is not None:
                try:
                    return self._open.execute(query).fetchall()
                except sqlite3.OperationalError as error:
                    raise self._translated(error) from error
        return self.rows(query)

    def count(self, name: str, number: int = 1) -> None:
        """Add to a counter that `inspect` shows."""
        with self.transaction() as database:
            database.execute(
                "INSERT INTO counters VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET number = number + excluded.number",
                (name, number),
            )

    def counters(self) -> dict[str, int]:
        """Counters of events, by name."""
        return dict(self.rows("SELECT name, number FROM counters"))

    def get(self, name: str) -> Any:
        """Return a value of the meta table, or None."""
        rows = self.rows("SELECT value FROM meta WHERE name = ?", (name,))
        return rows[0][0] if rows else None

    def put(self, name: str, value: object) -> None:
        """Set or (None) remove a value of the meta table."""
        with self.transaction() as database:
            if value is None:
                database.execute("DELETE FROM meta WHERE name = ?", (name,))
            else:
                database.execute("REPLACE INTO meta VALUES (?, ?)", (name, value))

    def note(self, name: str) -> str | None:
        """Return the text kept under a name, or None. Private."""
        rows = self.rows("SELECT text FROM notes WHERE name = ?", (name,))
        return str(rows[0][0]) if rows else None

    def put_note(self, name: str, text: str) -> None:
        """Keep a text under a name, in place of an earlier one."""
        with self.transaction() as database:
            database.execute("REPLACE INTO notes VALUES (?, ?)", (name, text))

    def sync(self) -> None:
        """Write all that is committed through to the disk, while other threads record.

        Only the log is synced: SQLite syncs it and the file itself when it moves the one into the
        other. Raises OSError.
        """
        with suppress(FileNotFoundError):  # no log: all is in the file, and synced
            _sync(f"{self.path}-wal", os.O_RDWR)
        if os.name != "nt":
            _sync(os.path.dirname(self.path), os.O_RDONLY)  # where the log may be new

    def checkpoint(self, min_bytes: int = 0) -> None:
        """Move a log of `min_bytes` or more into the file, while other threads record.

        Threads that never pause keep it from ending, and the log grows: past MAX_LOG_BYTES the rest
        is moved while they wait.
        """
        with self._checkpointing:  # not `lock`: it may wait for the disk
            log = f"{self.path}-wal"
            num_bytes = os.path.getsize(log) if os.path.exists(log) else 0
            if self._open is None or num_bytes < min_bytes:
                return
            self._open.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            if num_bytes > MAX_LOG_BYTES:
                self._open.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()

    def scrub(self) -> bool:
        """Empty the write-ahead log, which holds old pages; deleted rows are overwritten anyway.

        False where another connection is at work, or reads an earlier state: then what was deleted
        is still in the files, and goes the next time.
        """
        with self._checkpointing:  # as above
            if self._open is None:
                return False
            # the latter keeps writers out: the former has waited for the disk before, without that
            self._open.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            ((busy, _, _),) = self._open.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return not busy

    def leave_trace(self) -> None:
        """Mark that private rows are deleted, within the transaction that deletes them.

        A killed process, a scrub that another process hinders, and an app that is not opened for
        weeks leave it to whoever opens the state next.
        """
        self.put(UNSCRUBBED, int.from_bytes(os.urandom(7), "big"))

    def scrub_traces(self) -> bool:
        """Scrub the files if private rows were deleted. Return False if that must wait."""
        mark = self.get(UNSCRUBBED)
        if mark is None:
            return True
        with self.transaction() as database:  # places of rows tell how long those before them were
            notes = database.execute("SELECT * FROM notes").fetchall()
            database.execute("DELETE FROM notes")
            database.executemany("INSERT INTO notes VALUES (?, ?)", notes)
        if not self.scrub():
            return False
        with self.transaction() as database:  # another process may have deleted more meanwhile
            database.execute("DELETE FROM meta WHERE name = ? AND value = ?", (UNSCRUBBED, mark))
        return True

    def _undo(self) -> None:
        if self._open is not None and self._open.in_transaction:
            self._open.execute("ROLLBACK")


def _sync(path: str, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
