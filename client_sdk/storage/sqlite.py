"""The state in a file, safe over threads, processes and a killed process.

Every write is one transaction that takes SQLite's write lock first (BEGIN IMMEDIATE), so that two
processes on one file see each other's counts. Threads of one process wait for each other on a lock
of their own, which is fair, instead of SQLite's, which sleeps.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Set
from contextlib import suppress
from typing import Any

from client_sdk.randomisation.key_derivation import secret_check
from client_sdk.storage.interface import Draft, Entry, Identity, Limits, Line, Source, Stored
from client_sdk.storage.periods import change_unit, use_up
from client_sdk.storage.rollback_guard import RollbackGuard, Seen
from client_sdk.storage.state_file import StateFile
from client_sdk.storage.traces import leave_trace, scrub_traces

RECORD = "INSERT INTO recording VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # see `schema.RECORDING`
QUEUE = """
    INSERT INTO queue (source, entry, day, bits)
        SELECT ?, id, ?, ? FROM entries WHERE digest = ?
"""  # the same, where nothing is left to count
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
ADVANCE, MOST_ADVANCE = 50, 10  # reports counted at once: one in 50 of a limit, 10 at most


class SqliteState(StateFile):
    """A connection to a state file, which implements `State`.

    lock: shared by all connections of one process to this file.
    guard: told of each change of the generation.
    lock_patience: seconds of waiting for other threads; None: PATIENCE.
    """

    def __init__(
        self,
        path: str,
        lock: threading.RLock,
        guard: RollbackGuard,
        lock_patience: float | None = None,
    ) -> None:
        """Open or create the file; a new one is waited for longer. Raises StateError."""
        super().__init__(path, lock, lock_patience, is_new=not guard.exists())
        self._guard = guard
        self._advance: dict[tuple[str, int], int] = {}

    def close(self) -> None:
        """Close the connection for good; give back what was counted in advance."""
        with self.lock:
            if self._advance and self._open is not None and not self._rest_until:
                self._give_back(self._open)
            super().close()

    def _give_back(self, database: sqlite3.Connection) -> None:
        with suppress(sqlite3.Error):  # a full disk: then the counts stay, on the strict side
            database.executemany(
                "UPDATE periods SET reports = reports - ? WHERE metric = ? AND period = ?",
                [(left, *key) for key, left in self._advance.items() if left],
            )

    def add_report(self, draft: Draft, limits: Limits) -> Stored:
        """Queue one report and count it against its limits: the one write of `record`, one
        statement in one commit. With `alone_in` a transaction looks for another report first."""
        if limits.alone_in is None:
            return self._add(draft, limits)
        first, last = limits.alone_in
        with self.transaction(durable=True) as database:  # a window's one report: without a
            where = {"name": limits.name, "first": first, "last": last}
            near = database.execute(NEAR, where).fetchone()
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
        database = self._open or self.database
        try:
            if not step and limits.most_ever is None:
                source, digest, day, bits = draft
                queued = database.execute(QUEUE, (source, day, bits, digest)).rowcount
                return "queued" if queued else "not_memoised"
            database.execute(RECORD, (step, *limits[:5], *draft))
        except sqlite3.IntegrityError as refusal:
            if str(refusal) == "full":  # the trigger's own words
                return "full"
            if str(refusal) == "not_memoised":
                return "not_memoised"
            raise
        except sqlite3.OperationalError as error:
            raise self._seen(error) from error
        return "queued"

    def identity(self) -> Identity:
        """Read the identity: the secret and the generation."""
        query = "SELECT name, value FROM meta WHERE name IN ('secret', 'generation')"
        found = dict(self.rows(query))  # one statement: others write
        return Identity(found.get("secret"), found.get("generation", 0))

    def source(self, source: Source) -> int:
        """The number by which a source is known, given to it at the first call."""
        with self.transaction() as database:
            database.execute(
                "INSERT OR IGNORE INTO sources (metric, params_id, cohort) VALUES (?, ?, ?)", source
            )
            query = "SELECT id FROM sources WHERE metric = ? AND params_id = ? AND cohort = ?"
            (number,) = database.execute(query, source).fetchone()
        return int(number)

    def last_period(self, metric: str, latest: int) -> int | None:
        """The last period up to `latest` in which a report of `metric` was counted, or None."""
        query = "SELECT max(period) FROM periods WHERE metric = ? AND period BETWEEN 0 AND ?"
        ((period,),) = self.rows(query, (metric, latest))
        return None if period is None else int(period)

    def count_by(self, name: str, unit: str, present: int | None = None) -> None:
        """Count the reports of `name` by periods of this unit; it writes where the unit changed,
        or periods are many."""
        with self.transaction() as database:
            known = self.get(f"unit:{name}")
            if known != unit:
                if known is not None:
                    change_unit(database, name, known, unit)
                self.put(f"unit:{name}", unit)
            if present is not None:
                use_up(database, name, present)

    def line(self, name: str) -> Line | None:
        """A line of the ledger, or None."""
        rows = self.rows("SELECT * FROM lines WHERE name = ?", (name,))
        return Line(*rows[0]) if rows else None

    def lines(self) -> list[Line]:
        """All lines of the ledger, by name."""
        return [Line(*row) for row in self.rows("SELECT * FROM lines ORDER BY name")]

    def put_line(self, line: Line) -> None:
        """Add or replace a line of the ledger."""
        with self.transaction() as database:
            database.execute("REPLACE INTO lines VALUES (?, ?, ?, ?, ?, ?)", line)

    def entries(self, line: str) -> list[Entry]:
        """The memoised responses of a line, with the reports made from each."""
        return [Entry(*row) for row in self.rows(ENTRIES, (line,))]

    def add_entry(self, entry: Entry) -> None:
        """Memoise one more response; the generation grows."""
        with self.transaction(durable=True) as database:
            database.execute(
                "INSERT INTO entries (line, digest, params, cost, reports) VALUES (?, ?, ?, ?, ?)",
                entry,
            )
            self.next_generation()

    def note(self, name: str) -> str | None:
        """The text kept under a name, or None. Private."""
        rows = self.rows("SELECT text FROM notes WHERE name = ?", (name,))
        return str(rows[0][0]) if rows else None

    def put_note(self, name: str, text: str) -> None:
        """Keep a text under a name, in place of an earlier one."""
        with self.transaction() as database:
            database.execute("REPLACE INTO notes VALUES (?, ?)", (name, text))

    def keep_notes(self, names: Set[str]) -> None:
        """Delete all notes but those of these names, and overwrite them in the files."""
        stale = [row for row in self.rows("SELECT name FROM notes") if row[0] not in names]
        if stale:
            with self.transaction(durable=True) as database:
                database.executemany("DELETE FROM notes WHERE name = ?", stale)
                leave_trace(self)
            scrub_traces(self)

    def count(self, name: str, number: int = 1) -> None:
        """Add to a counter that `inspect` shows."""
        with self.transaction() as database:
            database.execute(
                "INSERT INTO counters VALUES (?, ?) "
                "ON CONFLICT DO UPDATE SET number = number + excluded.number",
                (name, number),
            )

    def counters(self) -> dict[str, int]:
        """Counters of events, by name."""
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

    def next_generation(self, above: int = 0) -> None:
        """Raise the state's generation, since what the secret protects has changed; to at least
        `above` + 1."""
        self.put("generation", max(self.identity().generation, above) + 1)

    def set_secret(self, secret: bytes | None, above: int = 0) -> None:
        """Store a new secret with its check, or remove it (None); the generation grows."""
        with self.transaction(durable=True):
            self.put("secret", secret)
            self.put("secret_check", secret_check(secret) if secret else None)
            self.next_generation(above)

    def _committed(self) -> None:
        secret, generation = self.identity()
        check = secret_check(secret).hex() if secret else ""
        self._guard.note(Seen(generation, check))
