"""A connection to the state file, with transactions that wait for a limited time.

The waiting thread may be the app's own, so no call waits longer than `PATIENCE`, and nothing waits
for the disk while it holds the lock. Transactions are committed to the system's cache, and the
sending thread calls `sync` before any data leaves the device.
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

PATIENCE = 0.05  # the maximum seconds that a call waits for other threads or processes
MAX_LOG_BYTES = 4 << 20
UNSCRUBBED = "unscrubbed"  # the key in the table `meta`


class StateFile:
    """One connection to a state file, for any thread."""

    def __init__(
        self, path: str, lock: threading.RLock, patience: float = PATIENCE, *, is_new: bool = False
    ) -> None:
        """Open or create the file.

        Args:
            path: The absolute path of the file.
            lock: The lock that all connections of this process to the file share.
            patience: The maximum number of seconds that a call waits for other threads.
            is_new: Whether this or another process may still have to create the file, so that
                opening waits longer.

        Raises:
            StateError: The file cannot be opened, or another process has locked it.
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
        """Return the connection, reopened after `suspend`. Acquire `lock` first."""
        if self._open is None:
            if self._closed:
                raise StateError("the client is closed", "closed")
            with reading(self.path):
                self._open = connect(self.path, PATIENCE)
        return self._open

    def check(self, check_ledger: LedgerCheck | None = None) -> None:
        """Read and check the whole file once. Raises StateError if damaged."""
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
        """Close the connection until it is needed: SQLite connections must not survive a fork."""
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
        """Acquire `lock`. Raises StateBusyError if that takes longer than the patience."""
        if self.lock.acquire(False):
            return
        if not self.lock.acquire(timeout=self._patience if patience is None else patience):
            raise busy(self.path)

    def _translated(self, error: sqlite3.OperationalError) -> Exception:
        is_busy = getattr(error, "sqlite_errorcode", 0) & 0xFF in BUSY
        return busy(self.path) if is_busy else error

    @contextmanager
    def _locked(self, patience: float | None = None) -> Iterator[None]:
        self._acquire(patience)
        try:
            yield
        except sqlite3.OperationalError as error:
            raise self._translated(error) from error
        finally:
            self.lock.release()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run an exclusive transaction, or join the current one.

        Committed data survives the end of the process. It survives a power loss once `sync` has
        returned. Otherwise a power loss undoes the latest transactions, never an earlier one alone.
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
        """Wrap reads that must be consistent with each other, without waiting for writers."""
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
        """Run a long query as `rows` does, but let other threads record meanwhile."""
        with self._checkpointing:  # not `lock`, so that no app thread waits
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
        """Return the counters of events, by name."""
        return dict(self.rows("SELECT name, number FROM counters"))

    def get(self, name: str) -> Any:
        """Return the value of a name in the meta table, or None."""
        rows = self.rows("SELECT value FROM meta WHERE name = ?", (name,))
        return rows[0][0] if rows else None

    def put(self, name: str, value: object) -> None:
        """Set a value in the meta table; remove it if `value` is None."""
        with self.transaction() as database:
            if value is None:
                database.execute("DELETE FROM meta WHERE name = ?", (name,))
            else:
                database.execute("REPLACE INTO meta VALUES (?, ?)", (name, value))

    def note(self, name: str) -> str | None:
        """Return the text that is stored under a name, or None. Private."""
        rows = self.rows("SELECT text FROM notes WHERE name = ?", (name,))
        return str(rows[0][0]) if rows else None

    def put_note(self, name: str, text: str) -> None:
        """Store a text under a name, replacing an earlier one."""
        with self.transaction() as database:
            database.execute("REPLACE INTO notes VALUES (?, ?)", (name, text))

    def sync(self) -> None:
        """Flush all committed data to the disk, while other threads may record.

        Only the log is synced, because SQLite itself syncs log and file when it moves the log into
        the file. Raises OSError if that fails.
        """
        with suppress(FileNotFoundError):  # without a log, all data is in the file, and synced
            _sync(f"{self.path}-wal", os.O_RDWR)
        if os.name != "nt":
            _sync(os.path.dirname(self.path), os.O_RDONLY)  # the log may be new in the directory

    def checkpoint(self, min_bytes: int = 0) -> None:
        """Move a log of at least `min_bytes` into the file, while other threads may record.

        Threads that record without pause prevent this from completing, and the log grows. Beyond
        MAX_LOG_BYTES, the rest is moved while they wait.
        """
        with self._checkpointing:  # not `lock`, because it may wait for the disk
            log = f"{self.path}-wal"
            num_bytes = os.path.getsize(log) if os.path.exists(log) else 0
            if self._open is None or num_bytes < min_bytes:
                return
            self._open.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            if num_bytes > MAX_LOG_BYTES:
                self._open.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()

    def scrub(self) -> bool:
        """Empty the write-ahead log, whose pages may hold deleted rows; return True on success."""
        with self._checkpointing:  # as above
            if self._open is None:
                return False
            # the second checkpoint blocks writers, so the first one waits for the disk beforehand
            self._open.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            ((busy, _, _),) = self._open.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return not busy

    def leave_trace(self) -> None:
        """Record that private rows are deleted, within the transaction that deletes them.

        If the process is killed, another process prevents the scrub, or the app is not opened for
        weeks, the next process that opens the state scrubs it.
        """
        self.put(UNSCRUBBED, int.from_bytes(os.urandom(7), "big"))

    def scrub_traces(self) -> bool:
        """Scrub the files if `leave_trace` recorded a deletion; return False to be called again."""
        mark = self.get(UNSCRUBBED)
        if mark is None:
            return True
        with self.transaction() as database:  # a row's position reveals the length of earlier rows
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
