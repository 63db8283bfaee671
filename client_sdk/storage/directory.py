"""The directory of one installation's state: opened and checked, made once, deleted.

A secret lost or exchanged in silence would void the guarantee, because each new one draws new
permanent responses and spends the whole budget again. So it is made once; and a state that is
missing, damaged or of a newer version is an error, which only `recording.withdrawal.reset` ends.
An older copy of the state keeps its secret, so its permanent responses are the same again, and it
is accepted: the ledger has forgotten what was memoized since.
"""

import os
import threading
from contextlib import suppress

from client_sdk.errors import StateError
from client_sdk.randomization.key_derivation import Randomness, new_secret, secret_check
from client_sdk.storage.damage import LedgerCheck, damaged, reading, unavailable
from client_sdk.storage.sqlite import SqliteState
from client_sdk.storage.state_file import PATIENCE

STATE_FILE = "state.sqlite"
MARKER_FILE = "witness.json"  # empty; there since the first secret was made
SENDER_LOCK_FILE = "sender.lock"
WITHDRAWAL_FILE = "withdrawal"  # empty; there while a withdrawal has begun and is not done


class StateDirectory:
    """The directory of one installation's state files, which holds nothing else. Its path is
    absolute from the start, whatever the process's directory is later."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Nothing is made or read yet."""
        self.path = os.path.abspath(os.fspath(path))
        self.state_path = os.path.join(self.path, STATE_FILE)
        self.sender_lock_path = os.path.join(self.path, SENDER_LOCK_FILE)
        self._marker_path = os.path.join(self.path, MARKER_FILE)
        self._withdrawal_path = os.path.join(self.path, WITHDRAWAL_FILE)

    def open(self, lock: threading.RLock, check_ledger: LedgerCheck | None = None) -> SqliteState:
        """Return the state, made if this is the first time, and checked. Raises StateError.

        check_ledger: decodes what the ledger keeps, as `recording.ledger.check_ledger`.
        """
        self.prepare()
        was_used = self._was_used()  # before the state is read: the marker is made after it
        if was_used and not self.has_state():
            raise self.missing()
        state = self.connect(lock)
        try:
            with reading(self.state_path), state.snapshot():  # another process may write
                state.check(check_ledger)
                secret, generation = state.identity()
                if (secret_check(secret) if secret else b"") != (state.get("secret_check") or b""):
                    raise damaged(self.state_path, "the secret does not fit its check")
                if generation == 0 and was_used:
                    raise self.missing()
        except BaseException:
            state.close()
            raise
        return state

    def connect(self, lock: threading.RLock, patience: float = PATIENCE) -> SqliteState:
        """Open a further connection to a state that was checked. Raises StateError."""
        return SqliteState(self.state_path, lock, patience, is_new=not self._was_used())

    def ensure_secret(self, state: SqliteState, randomness: Randomness) -> None:
        """Make the secret if the state has none: at the first start, or on a new consent."""
        if state.identity().secret is None:
            with state.patient(), state.transaction():
                if state.identity().secret is None:
                    state.set_secret(new_secret(randomness))
            state.sync()  # a marker without a secret would be taken for a state that was lost
        self.mark_used()

    def mark_used(self) -> None:
        """Leave a file that reveals a state that was lost from one that was never made."""
        if not self._was_used():
            os.close(os.open(self._marker_path, os.O_WRONLY | os.O_CREAT, 0o600))

    def _was_used(self) -> bool:
        return os.path.exists(self._marker_path)

    @property
    def is_withdrawn(self) -> bool:
        """Whether consent was withdrawn and the state is not wiped yet: nothing may be sent."""
        return os.path.exists(self._withdrawal_path)

    def has_state(self) -> bool:
        """Return whether the state file is in its place."""
        return os.path.exists(self.state_path)

    def file_id(self) -> tuple[int, int] | None:
        """Identify the state file in its place, over renames; None where there is none."""
        try:
            status = os.stat(self.state_path)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def missing(self) -> StateError:
        """Return the error for a state that was there before."""
        return StateError(
            f"{self.state_path} is missing, though it was there before; restore it, or call "
            "reset(), which draws a new secret and spends the privacy budget again",
            "state_missing",
        )

    def exists(self) -> bool:
        """Return whether the directory has files of an earlier run."""
        return self.has_state() or self._was_used()

    def begin_withdrawal(self) -> None:
        """Mark a withdrawal by a file until `end_withdrawal`; the next start finishes it."""
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


def _overwrite(path: str) -> None:
    """Write zeros over a file, no longer than it is. Raises OSError."""
    handle = os.open(path, os.O_WRONLY)
    try:
        size = os.fstat(handle).st_size
        while size > 0:
            size -= os.write(handle, bytes(min(size, 1 << 16)))
        os.fsync(handle)
    finally:
        os.close(handle)


class FileLock:
    """A lock on a file that one open file at a time holds, over threads and processes."""

    def __init__(self, path: str) -> None:
        """path: of the lock file, which is made if missing; nothing is locked yet."""
        self._path = path
        self._handle: int | None = None

    def try_acquire(self) -> bool:
        """Acquire the lock without waiting; return whether it worked. Raises OSError."""
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if os.name == "nt":
                from msvcrt import LK_NBLCK, locking  # type: ignore[attr-defined,unused-ignore]

                locking(handle, LK_NBLCK, 1)
            else:
                from fcntl import LOCK_EX, LOCK_NB, flock

                flock(handle, LOCK_EX | LOCK_NB)
        except OSError:  # another open file holds it
            os.close(handle)
            return False
        self._handle = handle
        return True

    def release(self) -> None:
        """Let go; in a forked child, which inherits the open file, this leaves the parent's."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)
