"""Functions that wipe a device's state, with retries, on withdrawal of consent and on a reset.

The record of spent budget survives the wipe if it is legible and the disk has room.
"""

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from typing import Any

from client_sdk.errors import StateBusyError, StateError
from client_sdk.randomization.key_derivation import Randomness, new_secret
from client_sdk.recording.ledger import check_ledger, check_line, committed, past, spent
from client_sdk.storage.damage import PARSERS, reading, reference
from client_sdk.storage.directory import StateDirectory
from client_sdk.storage.interface import Entry, Line
from client_sdk.storage.schema import create_compact
from client_sdk.storage.sqlite import COMPOSED, ENTRIES, SqliteState
from rappor_core.calendar import PERIOD_DAYS

FIRST_PAUSE, MAX_PAUSE = 0.25, 30.0  # seconds between two attempts; each pause doubles
UNKNOWN = "unknown"  # the ledger in a tombstone if the state could not be read
Row = tuple[Any, ...]
Account = dict[str, list[Row]]  # the rows of a state that survive its secret, by table
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)  # the latter comes from damaged text
MAX_COUNT = 1 << 62  # a larger number is damage
TABLES = ("periods", "used_up", "counters", "tombstones")


class Withdrawal:
    """The wiping of the state in a directory, retried until it succeeds.

    `done` is called in a thread when a retry succeeded.
    """

    def __init__(self, directory: StateDirectory, done: Callable[[], None]) -> None:
        self._directory = directory
        self._done = done
        self._lock = threading.Lock()
        self._ended: threading.Event | None = None  # for the current thread, if any
        self._thread: threading.Thread | None = None

    def begin(self) -> StateError | None:
        """Wipe the state; on failure, return the reason and retry until `end`."""
        self.end()
        trouble = self._try()
        if trouble is not None:
            ended = threading.Event()
            thread = threading.Thread(
                target=self._go_on, args=(ended,), name="rappor-withdrawal", daemon=True
            )
            with self._lock:
                self._ended, self._thread = ended, thread
            try:
                thread.start()
            except RuntimeError:  # no more threads: the next start wipes the state
                self.end()
        return trouble

    def end(self, seconds: float = 0.0) -> None:
        """Stop retrying, because the user has consented again, or the process forks or ends.

        Wait at most `seconds` for the thread.
        """
        with self._lock:
            ended, self._ended = self._ended, None
        if ended is not None:
            ended.set()
        if seconds and self._thread is not None and self._thread.is_alive():
            self._thread.join(seconds)

    @property
    def pending(self) -> bool:
        """Return whether a thread is still trying to wipe the state."""
        return self._ended is not None

    def _try(self) -> StateError | None:
        try:
            wipe(self._directory, threading.RLock())
        except StateError as error:
            return error
        return None

    def _go_on(self, ended: threading.Event) -> None:
        pause = FIRST_PAUSE
        while not ended.wait(pause):
            pause = min(2 * pause, MAX_PAUSE)
            with self._lock:  # not while the user is consenting again
                if ended.is_set():
                    return
                if self._try() is None:
                    self._ended = None
                    break
        else:
            return
        self._done()


def reset(
    directory: StateDirectory, lock: threading.RLock, randomness: Randomness, day: int
) -> SqliteState:
    """Start again with a new secret, at the app's explicit request; leave a tombstone.

    The first promises, the report counts and the budget are preserved if they are legible.

    Args:
        directory: The directory of the state.
        lock: The lock of this process for the state.
        randomness: The source of the secret.
        day: The day since 1970-01-01, for the tombstone.

    Raises:
        StateError: A file cannot be created.
    """
    directory.prepare()
    reason, state = _usable(directory, lock)
    with state.transaction() as database:
        lost = reason in ("state_missing", "state_corrupt")
        if reason != "state_new":
            row = day, reason, UNKNOWN if lost else ledger_text(state)
            database.execute("INSERT INTO tombstones (day, reason, ledger) VALUES (?, ?, ?)", row)
        _delete_values(database)
        database.execute(
            "UPDATE lines SET past_values = 0, past_cost = 0.0, past_spent = 0.0, past_reports = 0"
        )
        state.set_secret(new_secret(randomness))
    state.scrub()
    directory.mark_used()
    return state


def _usable(directory: StateDirectory, lock: threading.RLock) -> tuple[str, SqliteState]:
    """Return the reason for a reset, and an open state: a new one if the old is unreadable."""
    reason = "asked_for" if directory.exists() else "state_new"
    try:
        return reason, directory.open(lock, check_ledger)
    except StateError as error:
        reason = error.condition
    if reason in ("state_corrupt", "state_missing"):
        with reading(directory.state_path):
            _keep_account(directory)
        return reason, directory.connect(lock)
    return reason, directory.open(lock)  # raises again: a reset cannot help


def wipe(directory: StateDirectory, lock: threading.RLock) -> None:
    """Delete everything but the record of spent budget now, because consent was withdrawn.

    An unreadable state is deleted completely; after that, only `reset` can start again. If nothing
    can be written (a full disk), the state is also deleted, and recreated from its numbers if there
    is room. Raises StateError if neither is possible, such as while another process uses it. The
    withdrawal is remembered in a separate file, and completed by a later call.
    """
    if directory.has_state():
        directory.begin_withdrawal()
        try:
            with closing(directory.open(lock, check_ledger)) as state, reading(state.path):
                wipe_state(state)
        except StateError as error:
            with reading(directory.state_path):
                if error.condition in ("state_corrupt", "state_newer"):
                    directory.delete()
                elif isinstance(error, StateBusyError):
                    raise
                else:  # such as a full disk, where waiting may not help
                    _keep_account(directory)
    with reading(directory.state_path):
        directory.end_withdrawal()


def _keep_account(directory: StateDirectory) -> None:
    """Delete the state; if the disk has room, create a new one with the record of spent budget.

    Raises OSError if a file cannot be deleted.
    """
    account = read_account(directory.state_path)
    directory.delete()
    if account is not None:
        with suppress(sqlite3.Error, OSError):  # if there is still no room, the numbers are lost
            create_compact(directory.state_path, partial(write_account, account))


def wipe_state(state: SqliteState) -> None:
    """Delete the queue, the values and the secret; keep the spent budget in the ledger's lines.

    Raises StateBusyError if another connection keeps deleted data in the files.
    """
    if state.identity().secret is not None:
        with state.transaction() as database:
            for line in state.lines():
                state.put_line(past(line, state.entries(line.name, COMPOSED)))
            _delete_values(database)
            state.set_secret(None)
    if not state.scrub():
        raise StateBusyError(
            f"{state.path}: another process still reads the earlier state, which keeps the secret "
            "in the files"
        )


def ledger_text(state: SqliteState) -> str:
    """Return the numbers of the ledger as JSON by line, for a tombstone."""
    lines = {}
    for line in state.lines():
        entries = state.entries(line.name)
        lines[line.name] = {
            "values": line.past_values + len(entries),
            "epsilon_spent": spent(line, entries),
            "epsilon_committed": committed(line, entries),
        }
    return json.dumps(lines)


def _delete_values(database: sqlite3.Connection) -> None:
    for table in ("queue", "batches", "entries", "sources", "notes"):
        database.execute(f"DELETE FROM {table}")  # noqa: S608 (names from the line above)
    database.execute("DELETE FROM meta WHERE name IN ('send_at', 'failing_since', 'unscrubbed')")
    database.execute("DELETE FROM meta WHERE name LIKE 'stop:%'")


def write_account(account: Account, database: sqlite3.Connection) -> None:
    """Insert the rows that a withdrawal keeps into a new state, and mark it as not its first."""
    for table, rows in account.items():
        for row in rows:
            marks = ", ".join("?" * len(row))  # names are those of this SDK's tables
            database.execute(f"INSERT INTO {table} VALUES ({marks})", row)  # noqa: S608
    database.execute("INSERT INTO meta VALUES ('generation', 1)")


def read_account(path: str) -> Account | None:
    """Read the legible rows of a state; None if it is not a state, or is locked completely.

    Nothing is written if SQLite can read without writing.
    """
    if not os.path.exists(path):
        return None
    for exclusive in (False, True):  # the latter creates no other file, so it needs no room
        with closing(sqlite3.connect(path, timeout=0.05, isolation_level=None)) as database:
            try:
                if exclusive:
                    database.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
                database.execute("SELECT 1 FROM meta").fetchone()
                return _read(database)
            except UNREADABLE:
                continue
    return None


def _read(database: sqlite3.Connection) -> Account:
    tables = {name: list(_rows(database, name, _is_sound)) for name in TABLES}
    meta = list(_rows(database, "meta", _outlives))
    lines = []
    for row in _rows(database, "lines"):
        line, entries = Line(*row), list[Entry]()
        with suppress(*UNREADABLE):
            entries = [Entry(*entry) for entry in database.execute(ENTRIES, (line.name,))]
        try:
            check_line(line, entries)
            lines.append(tuple(past(line, entries)))
        except PARSERS:
            continue
    return {**tables, "meta": meta, "lines": lines}


def _rows(
    database: sqlite3.Connection, table: str, is_sound: Callable[[Row], bool] | None = None
) -> Iterator[Row]:
    try:
        query = f"SELECT * FROM {table} WHERE NOT ({reference()[1][table]})"  # noqa: S608
        yield from (row for row in database.execute(query) if is_sound is None or is_sound(row))
    except UNREADABLE:
        return


def _is_sound(row: Row) -> bool:
    """Return whether a row's numbers (-1: lifetime) and last cell (count or JSON) are valid."""
    *others, last = row
    if isinstance(last, str):  # the ledger of a tombstone
        with suppress(*PARSERS):
            return not last.startswith("{") or isinstance(json.loads(last), dict)
        return False
    numbers = (cell for cell in others if isinstance(cell, int))
    return 0 <= last < MAX_COUNT and all(cell >= -1 for cell in numbers)


def _outlives(row: Row) -> bool:
    name, value = row
    if name == "budget":
        return type(value) is float and value > 0
    return str(name).startswith("unit:") and value in PERIOD_DAYS
