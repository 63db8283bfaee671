"""The state in a file, which is safe with several threads, several processes and killed processes.

Every write is one transaction that acquires SQLite's write lock first (BEGIN IMMEDIATE), so that
two processes with one file see each other's counts. Threads of one process wait on a fair lock,
instead of SQLite's lock, which sleeps.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Set
from contextlib import suppress
from typing import TYPE_CHECKING

from client_sdk.errors import StateChangedError
from client_sdk.randomization.key_derivation import secret_check
from client_sdk.storage.interface import STOP, Entry, Identity, Limits, Line, Stop, Stored
from client_sdk.storage.periods import change_unit, use_up
from client_sdk.storage.schema import MEMORY
from client_sdk.storage.state_file import PATIENCE, StateFile
from rappor_core.calendar import date_of

if TYPE_CHECKING:
    from rappor_core.wire.report import Report

COUNT = """
    INSERT INTO periods SELECT :metric, :period, :step
        WHERE :step <= :most AND NOT EXISTS (
            SELECT 1 FROM used_up WHERE metric = :metric AND first <= :period AND last >= :period
        )
        ON CONFLICT (metric, period) DO UPDATE SET reports = reports + :step
        WHERE reports + :step <= :most
"""
QUEUE = """
    INSERT INTO queue (source, entry, day, bits)
        SELECT ?, id, ?, ? FROM entries WHERE digest = ?
"""
LIFE = -1  # the number of the endless period, for a limit over the device's lifetime
NEAR = """
    SELECT 1 FROM periods
        WHERE metric = :name AND reports > 0 AND period BETWEEN :first AND :last
    UNION SELECT 1 FROM used_up WHERE metric = :name AND first <= :last AND last >= :first LIMIT 1
"""
ENTRIES = """
    SELECT line, digest, params, cost,
           reports + (SELECT count(*) FROM queue WHERE queue.entry = entries.id)
    FROM entries WHERE line = ? ORDER BY id
"""
COMPOSED = "SELECT line, digest, params, cost, reports FROM entries WHERE line = ?"
QUEUED = """
    SELECT metric, params_id, cohort, day, bits FROM queue JOIN sources ON sources.id = source
    ORDER BY queue.id
"""
COUNT_QUEUED = """
    UPDATE entries SET reports = reports + (SELECT count(*) FROM queue WHERE entry = entries.id)
"""
ADVANCE, MAX_ADVANCE = 25, 10  # reports counted in advance: limit / 25, at most 10

Row = tuple[int, int, bytes, bytes]  # the values of QUEUE: source, day, bits, digest


class SqliteState(StateFile):
    """A connection to a state file, with the operations on its records."""

    def __init__(
        self, path: str, lock: threading.RLock, patience: float = PATIENCE, *, is_new: bool = False
    ) -> None:
        super().__init__(path, lock, patience, is_new=is_new)
        self._advance: dict[tuple[str, int], int] = {}

    def close(self) -> None:
        """Close the connection permanently; release unused counts that were made in advance."""
        with self.lock:
            if self._advance and self._open is not None:
                give_back = (
                    "UPDATE periods SET reports = reports - ? WHERE metric = ? AND period = ?"
                )
                unused = [(reports, *key) for key, reports in self._advance.items() if reports]
                with suppress(sqlite3.Error):  # such as a full disk: counts stay too high
                    self._open.executemany(give_back, unused)
            super().close()

    def add_report(
        self, source: int, digest: bytes, day: int, bits: bytes, limits: Limits
    ) -> Stored:
        """Queue one report and count it toward its limits, in one commit.

        Several reports are counted in advance, so that most commits write one page less. A process
        that is killed loses these reports: less than 1/25 of the limit, at most 9.

        Args:
            source: The number from `source`.
            digest: The digest of the memoized response from which the report was made. If the
                ledger does not contain it, the result is `not_memoized`.
            day: The day since 1970-01-01, UTC.
            bits: The bits as sent.
            limits: The limits on the number of reports.
        """
        report = source, day, bits, digest
        key = limits.name, limits.period
        if not self.lock.acquire(False):
            self._acquire()
        try:
            database = self._open or self.database
            in_advance = self._advance.get(key, 0)
            if in_advance and limits.most_ever is None and limits.alone_in is None:
                step = 0
                stored = _queue(database, report)  # a single statement is a transaction
            else:
                step = max(1, min(limits.most // ADVANCE, MAX_ADVANCE))
                if in_advance or database.in_transaction:  # an outer transaction may be rolled back
                    step = 0 if in_advance else 1
                stored = self._add(database, report, limits, step)
                if stored == "full" and step > 1:  # no room for all, but perhaps for one report
                    step = 1
                    stored = self._add(database, report, limits, step)
            if stored == "queued":
                self._advance[key] = in_advance + step - 1
        except sqlite3.OperationalError as error:
            raise self._translated(error) from error
        finally:
            self.lock.release()
        return stored

    def _add(self, database: sqlite3.Connection, report: Row, limits: Limits, step: int) -> Stored:
        """Queue a report and add `step` to the counts that limit it, or change nothing."""
        begun = not database.in_transaction
        database.execute("BEGIN IMMEDIATE" if begun else "SAVEPOINT report")
        try:
            stored: Stored = "full"
            if _count_report(database, limits, step):
                stored = _queue(database, report)
            if stored != "queued" and not begun:
                database.execute("ROLLBACK TO report")
            end = "COMMIT" if stored == "queued" else "ROLLBACK"
            database.execute(end if begun else "RELEASE report")
        except BaseException:
            if begun:
                self._undo()
            raise
        return stored

    def identity(self) -> Identity:
        """Return the identity: the secret and the generation."""
        query = "SELECT name, value FROM meta WHERE name IN ('secret', 'generation')"
        values = dict(self.rows(query))  # a single statement, because other processes may write
        return Identity(values.get("secret"), values.get("generation", 0))

    def secret(self, expected: bytes | None = None) -> bytes:
        """Return the secret, within the transaction that depends on it.

        The transaction is necessary because other processes may replace the secret.

        Args:
            expected: The secret of earlier derivations, if any.

        Raises:
            StateChangedError: There is no secret, or it differs from `expected`.
        """
        secret = self.identity().secret
        if secret is None or expected not in (None, secret):
            raise StateChangedError("the person withdrew consent, or another process did a reset")
        return secret

    def source(self, metric: str, params_id: str, cohort: int) -> int:
        """Return the number that queued reports store for a (metric, params_id, cohort)."""
        source = metric, params_id, cohort
        with self.transaction() as database:
            database.execute(
                "INSERT OR IGNORE INTO sources (metric, params_id, cohort) VALUES (?, ?, ?)", source
            )
            query = "SELECT id FROM sources WHERE metric = ? AND params_id = ? AND cohort = ?"
            (number,) = database.execute(query, source).fetchone()
        return int(number)

    def last_period(self, metric: str, latest: int) -> int | None:
        """Return the last period up to `latest` with a counted report of `metric`, or None."""
        query = "SELECT max(period) FROM periods WHERE metric = ? AND period BETWEEN 0 AND ?"
        ((period,),) = self.rows(query, (metric, latest))
        return None if period is None else int(period)

    def count_by(self, name: str, unit: str, present: int | None = None) -> None:
        """Set the unit of periods by which reports of `name` are counted; convert old counts."""
        with self.transaction() as database:
            before = self.get(f"unit:{name}")
            if before != unit:
                if before is not None:
                    change_unit(database, name, before, unit)
                self.put(f"unit:{name}", unit)
            if present is not None:
                use_up(database, name, present)

    def line(self, name: str) -> Line | None:
        """Return a line of the ledger, or None."""
        rows = self.rows("SELECT * FROM lines WHERE name = ?", (name,))
        return Line(*rows[0]) if rows else None

    def lines(self) -> list[Line]:
        """Return all lines of the ledger, by name."""
        return [Line(*row) for row in self.rows("SELECT * FROM lines ORDER BY name")]

    def put_line(self, line: Line) -> None:
        """Add or replace a line of the ledger."""
        with self.transaction() as database:
            database.execute("REPLACE INTO lines VALUES (?, ?, ?, ?, ?, ?)", line)

    def entries(self, line: str, query: str = ENTRIES) -> list[Entry]:
        """Return the memoized responses of a line, with the number of reports from each.

        With the query COMPOSED, reports that are still queued on the device do not count.
        """
        return [Entry(*row) for row in self.rows(query, (line,))]

    def add_entry(self, entry: Entry) -> None:
        """Add a memoized response."""
        with self.transaction() as database:
            database.execute(
                "INSERT INTO entries (line, digest, params, cost, reports) VALUES (?, ?, ?, ?, ?)",
                entry,
            )

    def keep_notes(self, names: Set[str]) -> None:
        """Delete all notes except those in `names`, and overwrite the deleted data in the files."""
        stale = [row for row in self.rows("SELECT name FROM notes") if row[0] not in names]
        if stale:
            with self.transaction() as database:
                database.executemany("DELETE FROM notes WHERE name = ?", stale)
                self.leave_trace()
            self.scrub_traces()

    def stop(self, metric: str) -> Stop | None:
        """Return the stored `Stop` of a metric, or None."""
        text = self.get(STOP + metric)
        if text is None:
            return None
        reason, params_id, until = text.split(" ")
        return Stop(reason, params_id, float(until))

    def put_stop(self, metric: str, stop: Stop | None) -> None:
        """Store the stop of a metric, or remove it (None)."""
        text = None if stop is None else f"{stop.reason} {stop.params_id} {stop.until}"
        self.put(STOP + metric, text)

    def has_waiting(self) -> bool:
        """Return whether any report is queued or in a batch."""
        query = "SELECT EXISTS (SELECT 1 FROM queue) OR EXISTS (SELECT 1 FROM batches)"
        return bool(self.rows(query)[0][0])

    def set_secret(self, secret: bytes | None) -> None:
        """Store a new secret with its check, or remove it (None); increase the generation."""
        with self.transaction():
            self.put("secret", secret)
            self.put("secret_check", secret_check(secret) if secret else None)
            self.put("generation", self.identity().generation + 1)


def _queue(database: sqlite3.Connection, report: Row) -> Stored:
    return "queued" if database.execute(QUEUE, report).rowcount else "not_memoized"


def _count_report(database: sqlite3.Connection, limits: Limits, step: int) -> bool:
    """Count a report in its period and lifetime; return False if that would exceed a limit."""
    name, period, most, line, most_ever, alone_in = limits
    if alone_in is not None:
        near = {"name": name, "first": alone_in[0], "last": alone_in[1]}
        if database.execute(NEAR, near).fetchone() is not None:
            return False
    counts = [{"metric": name, "period": period, "step": step, "most": most}] if step else []
    if most_ever is not None:
        counts.append({"metric": line, "period": LIFE, "step": 1, "most": most_ever})
    return all(database.execute(COUNT, values).rowcount for values in counts)


class MemoryState(SqliteState):
    """The state of one device in an in-memory database, which is lost with the object.

    For fleets of many devices in one process, and tests of an app; see `docs/client.md`.
    """

    def __init__(self, secret: bytes) -> None:
        super().__init__(MEMORY, threading.RLock())
        self.set_secret(secret)

    def __del__(self) -> None:
        with suppress(AttributeError):
            self.close()

    def take_reports(self) -> list[Report]:
        """Empty the queue and return its reports, in the order of recording."""
        from rappor_core.wire.report import Report  # a device in an app does not need it

        with self.transaction() as database:
            rows = database.execute(QUEUED).fetchall()
            database.execute(COUNT_QUEUED)
            database.execute("DELETE FROM queue")
        return [
            Report(metric, params_id, cohort, date_of(day), bits)
            for metric, params_id, cohort, day, bits in rows
        ]
