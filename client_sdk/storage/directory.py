"""The directory of one installation's state: opened and checked, made once, deleted.

A secret lost or exchanged in silence would void the guarantee, because each new one draws new
permanent responses and spends the whole budget again. So it is made once; and a state that is
missing, damaged, rolled back or of a newer version is an error, which only
`recording.account_wipe.reset` ends.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from client_sdk.errors import StateError
from client_sdk.randomisation.key_derivation import new_secret, secret_check
from client_sdk.randomisation.randomness import Randomness
from client_sdk.storage.damage import LedgerCheck, damaged, reading, unavailable
from client_sdk.storage.rollback_guard import RollbackGuard, Seen
from client_sdk.storage.sqlite import SqliteState

STATE_FILE = "state.sqlite"
GUARD_FILE = "witness.json"
SENDER_LOCK_FILE = "sender.lock"
WITHDRAWAL_FILE = "withdrawal"  # empty; there while a withdrawal has begun and is not done


class StateDirectory:
    """The directory of one installation's state files, which holds nothing else."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Nothing is made or read yet."""
        self.path = os.fspath(path)
        self.state_path = os.path.join(self.path, STATE_FILE)
        self.sender_lock_path = os.path.join(self.path, SENDER_LOCK_FILE)
        self._guard_path = os.path.join(self.path, GUARD_FILE)
        self._withdrawal_path = os.path.join(self.path, WITHDRAWAL_FILE)

    def open(self, lock: threading.RLock, check_ledger: LedgerCheck | None = None) -> SqliteState:
        """The state, made if this is the first time, and checked. Raises StateError.

        check_ledger: decodes what the ledger keeps, as `recording.ledger_check.check_ledger`.
        """
        self.prepare()
        guard = RollbackGuard(self._guard_path)
        if guard.exists() and not os.path.exists(self.state_path):
            raise StateError(
                f"{self.state_path} is missing, though it was there before; restore it, or call "
                "reset(), which draws a new secret and spends the privacy budget again",
                "state_missing",
            )
        state = self.connect(lock)
        try:
            seen = guard.read()  # before the state: it is written after it
            with reading(self.state_path), state.snapshot():  # another process may write
                state.check(check_ledger)
                self._check(state, seen)
        except BaseException:
            state.close()
            raise
        return state

    def connect(self, lock: threading.RLock, lock_patience: float | None = None) -> SqliteState:
        """Open a further connection to a state that was checked. Raises StateError."""
        return SqliteState(self.state_path, lock, RollbackGuard(self._guard_path), lock_patience)

    @property
    def is_withdrawn(self) -> bool:
        """Whether consent was withdrawn and the state is not wiped yet, so that nothing may be
        sent."""
        return os.path.exists(self._withdrawal_path)

    def exists(self) -> bool:
        """Whether the directory has files of an earlier run."""
        return os.path.exists(self.state_path) or os.path.exists(self._guard_path)

    def begin_withdrawal(self) -> None:
        """Leave a file that marks a withdrawal until `end_withdrawal`, so that the next start
        finishes it."""
        with suppress(OSError):  # a disk that is full or read-only: see `is_withdrawn`
            os.close(os.open(self._withdrawal_path, os.O_WRONLY | os.O_CREAT, 0o600))

    def end_withdrawal(self) -> None:
        """Remove the file that `begin_withdrawal` left. Raises OSError."""
        with suppress(FileNotFoundError):
            os.unlink(self._withdrawal_path)

    def delete(self) -> None:
        """Overwrite the state's files in place, where the system lets us, and delete them.

        Neither takes room on the disk. A process that still has them open finds them damaged.
        Raises OSError where a file can be neither overwritten nor deleted.
        """
        failed = None
        for suffix in ("-wal", "", "-shm"):
            path, overwritten = self.state_path + suffix, False
            with suppress(OSError):
                _overwrite(path)
                overwritten = True
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass
            except OSError as error:  # a directory that is read-only
                failed = failed if overwritten else error
        if failed is not None:
            raise failed

    def seen_generation(self) -> int:
        """The generation that was written beside the state last; 0 where none is legible."""
        seen = RollbackGuard(self._guard_path).read()
        return seen.generation if seen else 0

    def prepare(self) -> None:
        """Make the directory if it does not exist. Raises StateError where it cannot be used."""
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            mode = os.stat(self.path).st_mode & 0o7777
        except (OSError, ValueError) as error:
            raise unavailable(self.path, error) from error
        if os.name != "nt" and mode & 0o002:  # never changed: it is others' too
            raise StateError(
                f"{self.path} can be written to by anybody (mode {mode:o}): name a directory of "
                "the client's own in it, which is made if it is missing"
            )

    def _check(self, state: SqliteState, seen: Seen | None) -> None:
        """Compare the state with itself and with the rollback guard. Raises StateError."""
        secret, generation = state.identity()
        check = secret_check(secret) if secret else b""
        if check != (state.get("secret_check") or b""):
            raise damaged(self.state_path, "the secret does not fit its check")
        if seen is None:
            return
        if generation < seen.generation or (
            generation == seen.generation and check.hex() != seen.check
        ):
            raise StateError(_rolled_back(self.state_path), "state_rolled_back")


def ensure_secret(state: SqliteState, randomness: Randomness) -> None:
    """Make the secret if the state has none: at the first start, or on consent after a
    withdrawal."""
    if state.identity().secret is not None:
        return  # a later start waits for nobody
    with state.patient(), state.transaction(durable=True):
        if state.identity().secret is None:
            state.set_secret(new_secret(randomness))


def _overwrite(path: str) -> None:
    """Write zeros over a file, no longer than it is. Raises OSError."""
    handle = os.open(path, os.O_WRONLY)
    try:
        left = os.fstat(handle).st_size
        while left > 0:
            left -= os.write(handle, bytes(min(left, 1 << 16)))
        os.fsync(handle)
    finally:
        os.close(handle)


def _rolled_back(path: str) -> str:
    return (
        f"{path} is older than its witness, or another installation's: permanent responses may "
        "have been forgotten; restore the newest copy, or call reset(), which draws a new secret "
        "and spends the privacy budget again"
    )
