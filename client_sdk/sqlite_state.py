"""The state in a file, safe over threads, processes and a killed process.

Every write is one transaction that takes SQLite's write lock first (BEGIN IMMEDIATE), so that two
processes on one file see each other's counts. Threads of one process wait for each other on a lock
of their own, which is fair, instead of SQLite's, which sleeps.

No wait is longer than `PATIENCE`, because an app's own thread may be the one that waits. Who finds
the state locked for so long raises StateBusyError; until a short rest is over, so does everybody
else, at once (a circuit breaker).
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from typing import Any

from client_sdk.damage import BUSY, check_contents, reading
from client_sdk.errors import StateBusyError, StateError
from client_sdk.identity import secret_check
from client_sdk.schema import BUSY_SECONDS, connect, wait_for
from client_sdk.state import LIFE, Draft, Entry, Identity, Limits, Line, Source, Stored
from client_sdk.witness import Seen, Witness

RECORD = "INSERT INTO recording VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # see `schema.RECORDING`
NEAR = "SELECT 1 FROM periods WHERE metric = ? AND reports > 0 AND period BETWEEN ? AND ? LIMIT 1"
ENTRIES = """
    SELECT line, digest, params, cost,
           reports + (SELECT count(*) FROM queue WHERE queue.entry = entries.id)
    FROM entries WHERE line = ? ORDER BY id
"""
KEPT_PERIODS = 64  # of each metric: far more than can still be reported on
PATIENCE = 0.05  # seconds for which a call waits for other threads, and for other processes
LOG_BYTES = 640_000  # of the write-ahead log, past which recording waits for a checkpoint
FIRST_REST, LONGEST_REST = 0.1, 1.0  # seconds of not trying, after a wait that was in vain
ADVANCE, MOST_ADVANCE = 50, 10  # reports counted at once: one in 50 of a limit, 10 at most


class SqliteState:
    """One connection to a state file; implements `state.State`.

    lock: shared by all connections of one process to this file.
    witness: told of each change of the generation.
    lock_patience: seconds of waiting for other threads; None: PATIENCE.
    """

    def __init__(
        self,
        path: str,
        lock: threading.RLock,
        witness: Witness,
        lock_patience: float | None = None,
    ) -> None:
        """Open or create the file; a new one is waited for longer. Raises StateError."""
        self.path = path
        self.lock = lock
        self._witness = witness
        self._checkpointing = threading.Lock()
        self._closed = False
        self._advance: dict[tuple[str, int], int] = {}
        self._lock_patience = PATIENCE if lock_patience is None else lock_patience
        self._rest_until = 0.0  # time.monotonic(); 0 while all is well
        self._rests = 0
        with reading(path):
            self._open: sqlite3.Connection | None = connect(
                path, PATIENCE if witness.exists() else BUSY_SECONDS
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

    def check(self) -> None:
        """Read all of it once. Raises StateError for what is damaged."""
        with self._mine(reads=True):
            check_contents(self.database, self.path)

    @contextmanager
    def patient(self) -> Iterator[None]:
        """Wait longer for other processes: at a first start, which waits for the disk anyway."""
        with self._mine(reads=True):
            wait_for(self.database, BUSY_SECONDS)
            try:
                yield
            finally:
                wait_for(self.database, PATIENCE)

    def suspend(self) -> None:
        """Close the connection until it is needed again: SQLite's must not be carried over a fork.

        What was committed stays.
        """
        with self.lock, self._checkpointing:
            database, self._open = self._open, None
            if database is not None:
                database.close()

    def close(self) -> None:
        """Close the connection for good; give back what was counted in advance."""
        with self.lock:
            if self._advance and self._open is not None and not self._rest_until:
                self._give_back(self._open)
            self._closed = True
            self.suspend()

    def _give_back(self, database: sqlite3.Connection) -> None:
        with suppress(sqlite3.Error):  # a full disk: then the counts stay, on the strict side
            database.executemany(
                "UPDATE periods SET reports = reports - ? WHERE metric = ? AND period = ?",
                [(left, *key) for key, left in self._advance.items() if left],
            )

    def add_report(self, draft: Draft, limits: Limits) -> Stored:
        """See `State`. The one write of `Client.record`: one statement, one commit."""
        if limits.apart == 0:
            return self._add(draft, limits)
        first, last = limits.period - limits.apart, limits.period + limits.apart
        with self.transaction(durable=True) as database:  # a window's one report: without a
            near = database.execute(NEAR, (limits.name, max(first, 0), last)).fetchone()
            if near is not None:  # permanent response its count is what the guarantee hangs on
                return "full"
            stored = self._add(draft, limits)
            if stored == "queued":
                self.next_generation()
        return stored

    def _add(self, draft: Draft, limits: Limits) -> Stored:
        """Count in advance where that is due, and record.

        A limit is counted some reports in advance, which saves most commits a page. A process that
        is killed loses what it had in advance: less than a fiftieth of the limit, 9 at most.
        """
        key = limits.name, limits.period
        self._take()
        try:
            left = self._advance.get(key, 0)
            step = 0 if left else max(1, min(limits.most // ADVANCE, MOST_ADVANCE))
            stored = self._record(draft, limits, step)
            if stored == "full" and step > 1:  # no room for so many, but perhaps for one
                step = 1
                stored = self._record(draft, limits, step)
            if stored == "queued":
                self._advance[key] = left + step - 1
                self._rest_until = 0.0
        finally:
            self.lock.release()
        return stored

    def _record(self, draft: Draft, limits: Limits, step: int) -> Stored:
        """Queue a report and count `step` against its period, or change nothing."""
        try:
            (self._open or self.database).execute(RECORD, (step, *limits[:5], *draft))
        except sqlite3.IntegrityError as refusal:
            if str(refusal) == "full":  # the trigger's own words
                return "full"
            if str(refusal) == "not_memoised":
                return "not_memoised"
            raise
        except sqlite3.OperationalError as error:
            raise self._seen(error) from error
        return "queued"

    @contextmanager
    def _mine(self, *, reads: bool = False) -> Iterator[None]:
        """Around statements of this connection. reads: only reads, which no writer hinders."""
        self._take(reads=reads)
        try:
            yield
        except sqlite3.OperationalError as error:
            raise self._seen(error) from error
        finally:
            self.lock.release()

    def _take(self, *, reads: bool = False) -> None:
        """Take `lock`, or raise StateBusyError after a wait, or at once in a rest."""
        if self._resting(reads) or not self.lock.acquire(timeout=self._lock_patience):
            raise self._busy()
        if self._resting(reads):  # another thread has waited meanwhile, in vain
            self.lock.release()
            raise self._busy()

    def _resting(self, reads: bool) -> bool:
        if not self._rest_until or reads or time.monotonic() >= self._rest_until:
            return False
        return self._open is None or not self._open.in_transaction

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
        """See `State`. Within another one of the same thread, a part of it."""
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
                self._tell_witness()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Around reads that must fit each other; no writer is waited for."""
        with self._mine(reads=True):
            if self.database.in_transaction:
                yield
                return
            self.database.execute("BEGIN")
            try:
                yield
            finally:
                self._undo()

    def rows(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with self._mine(reads=True):
            return self.database.execute(query, values).fetchall()

    def identity(self) -> Identity:
        """See `State`."""
        secret = self.get("secret")
        return Identity(secret, self.get("generation") or 0)

    def source(self, source: Source) -> int:
        """See `State`."""
        with self.transaction() as database:
            database.execute(
                "INSERT OR IGNORE INTO sources (metric, params_id, cohort) VALUES (?, ?, ?)", source
            )
            _forget_periods(database, source.metric)
            query = "SELECT id FROM sources WHERE metric = ? AND params_id = ? AND cohort = ?"
            (number,) = database.execute(query, source).fetchone()
        return int(number)

    def last_period(self, metric: str) -> int | None:
        """See `State`."""
        query = "SELECT max(period) FROM periods WHERE metric = ? AND period <> ?"
        ((period,),) = self.rows(query, (metric, LIFE))
        return None if period is None else int(period)

    def line(self, name: str) -> Line | None:
        """See `State`."""
        rows = self.rows("SELECT * FROM lines WHERE name = ?", (name,))
        return Line(*rows[0]) if rows else None

    def lines(self) -> list[Line]:
        """See `State`."""
        return [Line(*row) for row in self.rows("SELECT * FROM lines ORDER BY name")]

    def put_line(self, line: Line) -> None:
        """See `State`."""
        with self.transaction() as database:
            database.execute("REPLACE INTO lines VALUES (?, ?, ?, ?, ?, ?)", line)

    def entries(self, line: str) -> list[Entry]:
        """See `State`."""
        return [Entry(*row) for row in self.rows(ENTRIES, (line,))]

    def add_entry(self, entry: Entry) -> None:
        """See `State`."""
        with self.transaction(durable=True) as database:
            database.execute(
                "INSERT INTO entries (line, digest, params, cost, reports) VALUES (?, ?, ?, ?, ?)",
                entry,
            )
            self.next_generation()

    def note(self, name: str) -> str | None:
        """See `State`."""
        rows = self.rows("SELECT text FROM notes WHERE name = ?", (name,))
        return str(rows[0][0]) if rows else None

    def put_note(self, name: str, text: str) -> None:
        """See `State`."""
        with self.transaction() as database:
            database.execute("REPLACE INTO notes VALUES (?, ?)", (name, text))

    def keep_notes(self, names: Set[str]) -> None:
        """Delete all notes but those of these names, without a trace."""
        stale = [row for row in self.rows("SELECT name FROM notes") if row[0] not in names]
        if stale:
            with self.transaction(durable=True) as database:
                database.executemany("DELETE FROM notes WHERE name = ?", stale)
            self.scrub()

    def count(self, name: str, number: int = 1) -> None:
        """See `State`."""
        with self.transaction() as database:
            database.execute(
                "INSERT INTO counters VALUES (?, ?) "
                "ON CONFLICT DO UPDATE SET number = number + excluded.number",
                (name, number),
            )

    def counters(self) -> dict[str, int]:
        """What was counted, by name."""
        return dict(self.rows("SELECT name, number FROM counters"))

    def get(self, name: str) -> Any:
        """A value of the meta table, or None."""
        rows = self.rows("SELECT value FROM meta WHERE name = ?", (name,))
        return rows[0][0] if rows else None

    def put(self, name: str, value: object) -> None:
        """Set or (None) remove a value of the meta table."""
        with self.transaction() as database:
            if value is None:
                database.execute("DELETE FROM meta WHERE name = ?", (name,))
            else:
                database.execute("REPLACE INTO meta VALUES (?, ?)", (name, value))

    def has_waiting(self) -> bool:
        """Whether any report is queued or in a batch."""
        query = "SELECT EXISTS (SELECT 1 FROM queue) OR EXISTS (SELECT 1 FROM batches)"
        return bool(self.rows(query)[0][0])

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
        """Where the write-ahead log grows faster than the sending thread checkpoints: do it here.

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
            ((busy, _, _),) = self._open.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return not busy

    def next_generation(self, above: int = 0) -> None:
        """Say that what the guarantee hangs on has changed; never less than `above` + 1."""
        self.put("generation", max(self.identity().generation, above) + 1)

    def set_secret(self, secret: bytes | None, above: int = 0) -> None:
        """Store a new secret with its check, or none; the generation grows."""
        with self.transaction(durable=True):
            self.put("secret", secret)
            self.put("secret_check", None if secret is None else secret_check(secret))
            self.next_generation(above)

    def _tell_witness(self) -> None:
        secret, generation = self.identity()
        check = "" if secret is None else secret_check(secret).hex()
        self._witness.note(Seen(generation, check))

    def _undo(self) -> None:
        if self._open is not None and self._open.in_transaction:
            self._open.execute("ROLLBACK")


def _forget_periods(database: sqlite3.Connection, metric: str) -> None:
    """Bound the counts of past periods; the latest stay, and the one for life."""
    database.execute(
        "DELETE FROM periods WHERE metric = ? AND period >= 0 AND period NOT IN "
        "(SELECT period FROM periods WHERE metric = ? ORDER BY period DESC LIMIT ?)",
        (metric, metric, KEPT_PERIODS),
    )
