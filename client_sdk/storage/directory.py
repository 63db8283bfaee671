"""Custody of the secret: when it is made, when it is trusted, and how it ends.

A secret lost or exchanged in silence would void the guarantee, because each new one draws new
permanent responses and spends the whole budget again. So: made once; a state that is missing,
damaged, rolled back or of a newer version is an error that only `reset` ends; and `reset` leaves a
tombstone.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from contextlib import suppress

from client_sdk.errors import StateBusyError, StateError
from client_sdk.randomisation.key_derivation import new_secret, secret_check
from client_sdk.randomisation.randomness import Randomness
from client_sdk.recording.ledger import committed, spent
from client_sdk.storage.damage import damaged, reading
from client_sdk.storage.rollback_guard import Witness
from client_sdk.storage.sqlite import SqliteState

STATE_FILE = "state.sqlite"
WITNESS_FILE = "witness.json"
SENDER_LOCK_FILE = "sender.lock"
WITHDRAWAL_FILE = "withdrawal"  # empty; there while a withdrawal has begun and is not done
UNKNOWN = "unknown"  # the ledger of a tombstone whose state could not be read


class StateDirectory:
    """The directory that holds one installation's state; nothing else should lie in it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Nothing is made or read yet."""
        self.path = os.fspath(path)
        self.state_path = os.path.join(self.path, STATE_FILE)
        self.sender_lock_path = os.path.join(self.path, SENDER_LOCK_FILE)
        self._witness_path = os.path.join(self.path, WITNESS_FILE)
        self._withdrawal_path = os.path.join(self.path, WITHDRAWAL_FILE)

    def open(self, lock: threading.RLock) -> SqliteState:
        """The state, made if this is the first time, and trusted. Raises StateError."""
        self._prepare()
        seen = Witness(self._witness_path).exists()  # before the state: it is written after it
        if seen and not os.path.exists(self.state_path):
            raise StateError(
                f"{self.state_path} is missing, though it was there before; restore it, or call "
                "reset(), which draws a new secret and spends the privacy budget again",
                "state_missing",
            )
        state = self.connect(lock)
        try:
            state.check()
            with reading(self.state_path):
                self._check(state)
        except BaseException:
            state.close()
            raise
        return state

    def connect(self, lock: threading.RLock, lock_patience: float | None = None) -> SqliteState:
        """A further connection to a state that is known to be right. Raises StateError."""
        return SqliteState(self.state_path, lock, Witness(self._witness_path), lock_patience)

    @property
    def is_withdrawn(self) -> bool:
        """Whether consent was withdrawn and the state is not wiped yet: nothing may be sent."""
        return os.path.exists(self._withdrawal_path)

    def exists(self) -> bool:
        """Whether there is anything of an earlier run."""
        return os.path.exists(self.state_path) or os.path.exists(self._witness_path)

    def reset(self, lock: threading.RLock, randomness: Randomness, day: int) -> SqliteState:
        """Start anew with a new secret, on the word of the app alone; leaves a tombstone.

        day: since 1970-01-01, for the tombstone. Raises StateError where a file cannot be made.
        """
        self._prepare()
        seen = Witness(self._witness_path).read()
        reason, state = self._salvage(lock)
        with state.transaction(durable=True) as database:
            ledger = UNKNOWN if reason in ("state_missing", "state_corrupt") else ledger_text(state)
            if reason != "state_new":
                row = day, reason, ledger
                database.execute(
                    "INSERT INTO tombstones (day, reason, ledger) VALUES (?, ?, ?)", row
                )
            _forget_values(database)
            database.execute("DELETE FROM lines")
            state.set_secret(new_secret(randomness), above=seen.generation if seen else 0)
        state.scrub()
        return state

    def wipe(self, lock: threading.RLock) -> None:
        """Forget all but numbers, at once: the person does not consent. Nothing is made.

        A state that cannot be read is deleted whole; then only `reset` starts anew. Raises
        StateError where it can be neither, such as while another process holds it; the withdrawal
        is remembered in a file of its own, and ends with a later call.
        """
        if os.path.exists(self.state_path):
            with suppress(OSError):  # a full disk: then only this process remembers
                os.close(os.open(self._withdrawal_path, os.O_WRONLY | os.O_CREAT, 0o600))
            try:
                self._wipe(lock)
            except StateError as error:
                if error.condition not in ("state_corrupt", "state_newer"):
                    raise
                with reading(self.state_path):
                    self._delete()
        with suppress(FileNotFoundError):
            os.unlink(self._withdrawal_path)

    def _wipe(self, lock: threading.RLock) -> None:
        try:
            state = self.open(lock)
        except StateError as error:
            if error.condition != "state_rolled_back":
                raise
            state = self.connect(lock)
        try:
            with reading(self.state_path):
                wipe(state)
        finally:
            state.close()

    def _prepare(self) -> None:
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            mode = os.stat(self.path).st_mode & 0o7777
        except (OSError, ValueError) as error:
            raise StateError(
                f"{self.path} cannot be used: {error}; it is tried again every minute"
            ) from error
        if os.name != "nt" and mode & 0o002:  # never changed: it is others' too
            raise StateError(
                f"{self.path} can be written to by anybody (mode {mode:o}): name a directory of "
                "the client's own in it, which is made if it is missing"
            )

    def _check(self, state: SqliteState) -> None:
        """Compare the state with itself and with the witness. Raises StateError."""
        with state.lock:
            seen = Witness(self._witness_path).read()  # again: both may have changed since
            secret, generation = state.identity()
            check = b"" if secret is None else secret_check(secret)
            stored_check = state.get("secret_check") or b""
        if check != stored_check:
            raise damaged(self.state_path, "the secret does not fit its check")
        if seen is None:
            return
        if generation < seen.generation or (
            generation == seen.generation and check.hex() != seen.check
        ):
            raise StateError(_rolled_back(self.state_path), "state_rolled_back")

    def _salvage(self, lock: threading.RLock) -> tuple[str, SqliteState]:
        """Why a reset is due, and a state to do it in: the old one wherever it can be read."""
        reason = "asked_for" if self.exists() else "state_new"
        try:
            return reason, self.open(lock)
        except StateError as error:
            reason = error.condition
        if reason == "state_rolled_back":
            return reason, self.connect(lock)
        if reason in ("state_corrupt", "state_missing"):
            self._delete()
            return reason, self.connect(lock)
        return reason, self.open(lock)  # raises again: nothing here can be mended by a reset

    def _delete(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.unlink(self.state_path + suffix)


def ensure_secret(state: SqliteState, randomness: Randomness) -> None:
    """Make the secret if there is none: at the first start, or on consent after a withdrawal."""
    if state.identity().secret is not None:
        return  # a later start waits for nobody
    with state.patient(), state.transaction(durable=True):
        if state.identity().secret is None:
            state.set_secret(new_secret(randomness))


def wipe(state: SqliteState) -> None:
    """Delete the queue, the values and the secret; keep the numbers spent in the ledger's lines.

    Raises StateBusyError while another connection keeps what was deleted in the files.
    """
    if state.identity().secret is not None:
        _forget_all(state)
    if not state.scrub():
        raise StateBusyError(
            f"{state.path}: another process still reads the state as it was before, which keeps "
            "the secret in the files"
        )


def _forget_all(state: SqliteState) -> None:
    with state.transaction(durable=True) as database:
        for line in state.lines():
            entries = state.entries(line.name)
            state.put_line(
                line._replace(
                    past_values=line.past_values + len(entries),
                    past_cost=line.past_cost + sum(entry.cost for entry in entries),
                    past_spent=spent(line, entries),
                    past_reports=line.past_reports + sum(entry.reports for entry in entries),
                )
            )
        _forget_values(database)
        state.set_secret(None)


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


def _forget_values(database: sqlite3.Connection) -> None:
    for table in ("queue", "batches", "entries", "sources", "notes"):
        database.execute(f"DELETE FROM {table}")  # noqa: S608 (names from the line above)
    database.execute("DELETE FROM meta WHERE name = 'send_at'")


def _rolled_back(path: str) -> str:
    return (
        f"{path} is older than its witness, or another installation's: permanent responses may "
        "have been forgotten; restore the newest copy, or call reset(), which draws a new secret "
        "and spends the privacy budget again"
    )
