"""A connection to the state file: its transactions, and how long callers wait for them.

No wait is longer than `PATIENCE`, because an app's own thread may be the one that waits. Who finds
the state locked for so long raises StateBusyError; until a short rest is over, so does everybody
else, at once (a circuit breaker).
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from client_sdk.errors import StateBusyError, StateError
from client_sdk.storage.damage import BUSY, LedgerCheck, check_contents, reading
from client_sdk.storage.schema import BUSY_SECONDS, connect, wait_for

PATIENCE = 0.05  # seconds for which a call waits for other threads, and for other processes
LOG_BYTES = 640_000  # of the write-ahead log, past which recording waits for a checkpoint
FIRST_REST, LONGEST_REST = 0.1, 1.0  # seconds of not trying, after a wait that was in vain


class StateFile:
    """One connection to a state file.

    lock: shared by all connections of one process to this file.
    lock_patience: seconds of waiting for other threads; None: PATIENCE.
    is_new: the file may still have to be made, by this process or another: that is waited for.
    """

    def __init__(
        self,
        path: str,
        lock: threading.RLock,
        lock_patience: float | None = None,
        *,
        is_new: bool = False,
    ) -> None:
        """Open or create the file; a new one is waited for longer. Raises StateError."""
        self.path = path
        self.lock = lock
        self._checkpointing = threading.Lock()
        self._closed = False
        self._lock_patience = PATIENCE if lock_patience is None else lock_patience
        self._rest_until = 0.0  # time.monotonic(); 0 while all is well
        self._rests = 0
        with reading(path):
            self._open: sqlite3.Connection | None = connect(
                path, BUSY_SECONDS if is_new else PATIENCE
            )
            wait_for(self._open, PATIENCE)

    @property
    def database(self) -> sqlite3.Connection:
        """The connection; made anew after `suspend`. Take `lock` first."""
        if self._open is None:
            if self._closed:
                raise StateError("the client is closed", "closed")
            with reading(self.path):
                self._open = connect(self.path, PATIENCE)
        return self._open

    def check(self, check_ledger: LedgerCheck | None = None) -> None:
        """Read the whole file once. Raises StateError for damage."""
        with self._mine(reads=True):
            check_contents(self.database, self.path, check_ledger)

    @contextmanager
    def patient(self) -> Iterator[None]:
        """Wait longer for other processes within the block, as a first start does."""
        with self._mine(reads=True):
            wait_for(self.database, BUSY_SECONDS)
            try:
                yield
            finally:
                wait_for(self.database, PATIENCE)

    def suspend(self) -> None:
        """Close the connection until it is needed again, since SQLite's must not be carried over
        a fork.

        What was committed stays.
        """
        with self.lock, self._checkpointing:
            database, self._open = self._open, None
            if database is not None:
                database.close()

    def close(self) -> None:
        """Close the connection for good."""
        with self.lock:
            self._closed = True
            self.suspend()

    @contextmanager
    def _mine(self, *, reads: bool = False, turns: int = 1) -> Iterator[None]:
        """Around statements of this connection. reads: only reads, which no writer hinders.

        turns: how many threads are waited for, each of which may wait for a writer itself.
        """
        self._take(reads=reads, turns=turns)
        try:
            yield
        except sqlite3.OperationalError as error:
            raise self._seen(error) from error
        finally:
            self.lock.release()

    def _take(self, *, reads: bool = False, turns: int = 1) -> None:
        """Take `lock`, or raise StateBusyError after a wait, or at once in a rest."""
        lock, wait = self.lock, turns * self._lock_patience
        if self._resting(reads) or not (lock.acquire(False) or lock.acquire(timeout=wait)):
            raise self._busy()
        if self._rest_until and self._resting(reads):  # another thread has waited, in vain
            self.lock.release()
            raise self._busy()

    def _resting(self, reads: bool) -> bool:
        if not self._rest_until or reads or time.monotonic() >= self._rest_until:
            return False
        return self._open is None or not self._open.in_transaction

    def end_rest(self) -> None:
        """End the pause after a wait for the file that was in vain, so that the next call tries
        at once."""
        self._rest_until = 0.0

    def _busy(self) -> StateBusyError:
        """Begin a rest, unless it is one; each without a success between is twice as long."""
        now = time.monotonic()
        if now >= self._rest_until:
            self._rests = self._rests + 1 if self._rest_until else 0
            self._rest_until = now + min(FIRST_REST * 2.0**self._rests, LONGEST_REST)
        return StateBusyError(f"{self.path} is locked by another process or thread")

    def _seen(self, error: sqlite3.OperationalError) -> Exception:
        busy = getattr(error, "sqlite_errorcode", 0) & 0xFF in BUSY
        return self._busy() if busy else error

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        """A transaction that excludes other threads and processes; within another one of the
        same thread, a part of it."""
        with self._mine():
            database = self.database
            if database.in_transaction:
                yield database
                return
            database.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            try:
                database.execute("BEGIN IMMEDIATE")
                yield database
                database.execute("COMMIT")
                self._rest_until = 0.0
            except BaseException:
                self._undo()
                raise
            finally:
                database.execute("PRAGMA synchronous = NORMAL")
            if durable:
                self._committed()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Surround reads that must be consistent with each other, without waiting for writers."""
        with self._mine(reads=True, turns=3):
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
        with self._mine(reads=True):
            return self.database.execute(query, values).fetchall()

    def rows_aside(self, query: str) -> list[tuple[Any, ...]]:
        """Run a long query as `rows` does, while other threads record."""
        with self._checkpointing:  # not `lock`: nobody waits
            if self._open is not None:
                try:
                    return self._open.execute(query).fetchall()
                except sqlite3.OperationalError as error:
                    raise self._seen(error) from error
        return self.rows(query)

    def checkpoint(self) -> bool:
        """Move the write-ahead log into the file; recording goes on meanwhile.

        True where another connection is at it.
        """
        with self._checkpointing:  # not `lock`: it may wait for the disk
            if self._open is None:
                return False
            ((busy, _, _),) = self._open.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            return bool(busy)

    def shorten_log(self) -> None:
        """Checkpoint the write-ahead log in this thread, if it grows faster than the sending
        thread checkpoints it.

        Waits for that thread's checkpoint, and for the disk; for PATIENCE at most, and one sync.
        """
        try:
            if os.path.getsize(f"{self.path}-wal") < LOG_BYTES:
                return
        except OSError:
            return  # no log yet
        deadline = time.monotonic() + PATIENCE
        with suppress(sqlite3.Error):  # a full disk: what was recorded is recorded
            while self.checkpoint() and time.monotonic() < deadline:
                time.sleep(0.002)

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

    def _undo(self) -> None:
        if self._open is not None and self._open.in_transaction:
            self._open.execute("ROLLBACK")

    def _committed(self) -> None:
        """After each durable commit; for what is on top."""
