"""End a secret: a withdrawal of consent wipes it, and `reset` replaces it.

What outlives it are numbers and first promises: the ledger's lines, the reports counted by period
and for life, the budget. A withdrawal ends without the secret on the disk, if need be by deleting
the state; a reset leaves a tombstone.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import suppress

from client_sdk.errors import StateBusyError, StateError
from client_sdk.randomisation.key_derivation import new_secret
from client_sdk.randomisation.randomness import Randomness
from client_sdk.recording.ledger import check_ledger, committed, past, spent
from client_sdk.storage.damage import reading
from client_sdk.storage.directory import StateDirectory
from client_sdk.storage.sqlite import SqliteState

UNKNOWN = "unknown"  # the ledger of a tombstone whose state could not be read


def reset(
    directory: StateDirectory, lock: threading.RLock, randomness: Randomness, day: int
) -> SqliteState:
    """Start anew with a new secret, on the word of the app alone; leaves a tombstone.

    The first promises, the counts of reports and the budget stay, as far as they are legible.
    day: since 1970-01-01, for the tombstone. Raises StateError where a file cannot be made.
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
    """Why a reset is due, and a state to do it in: the old one wherever it can be read."""
    reason = "asked_for" if directory.exists() else "state_new"
    try:
        return reason, directory.open(lock, check_ledger)
    except StateError as error:
        reason = error.condition
    if reason in ("state_corrupt", "state_missing"):
        with reading(directory.state_path):
            _keep_account(directory)
        return reason, directory.connect(lock)
    return reason, directory.open(lock)  # raises again: nothing here can be mended by a reset


def wipe(directory: StateDirectory, lock: threading.RLock) -> None:
    """Delete all but numbers, at once: the person does not consent. Nothing is made.

    A state that cannot be read is deleted whole; then only `reset` starts anew. Where nothing can
    be written (a full disk), the state is deleted too, and made again from its numbers if there is
    room then. Raises StateError where it can be neither, such as while another process holds it;
    the withdrawal is remembered in a file of its own, and ends with a later call.
    """
    if directory.has_state():
        directory.begin_withdrawal()
        try:
            _wipe(directory, lock)
        except StateError as error:
            with reading(directory.state_path):
                if error.condition in ("state_corrupt", "state_newer"):
                    directory.delete()
                elif isinstance(error, StateBusyError):
                    raise
                else:  # a full disk: waiting may never help
                    _keep_account(directory)
    with reading(directory.state_path):
        directory.end_withdrawal()


def _wipe(directory: StateDirectory, lock: threading.RLock) -> None:
    state = directory.open(lock, check_ledger)
    try:
        with reading(state.path):
            wipe_state(state)
    finally:
        state.close()


def _keep_account(directory: StateDirectory) -> None:
    """Delete the state; then, if there is room, make one of what outlives a secret. Raises OSError
    where a file cannot be deleted."""
    from client_sdk.recording.account import read_account  # rarely needed: keeps the import light
    from client_sdk.storage.schema import create_compact

    account = read_account(directory.state_path)
    directory.delete()
    if account is not None:
        with suppress(sqlite3.Error, OSError):  # no room even now: the numbers are lost
            create_compact(directory.state_path, account.write)


def wipe_state(state: SqliteState) -> None:
    """Delete the queue, the values and the secret; keep the numbers spent in the ledger's lines.

    Raises StateBusyError while another connection keeps what was deleted in the files.
    """
    if state.identity().secret is not None:
        with state.transaction() as database:
            for line in state.lines():
                state.put_line(past(line, state.composed_entries(line.name)))
            _delete_values(database)
            state.set_secret(None)
    if not state.scrub():
        raise StateBusyError(
            f"{state.path}: another process still reads the state as it was before, which keeps "
            "the secret in the files"
        )


def ledger_text(state: SqliteState) -> str:
    """The ledger in numbers, for a tombstone: JSON, by line."""
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
