"""The directory of one installation's state, with its checks, creation and deletion.

If a secret were lost or replaced without notice, the guarantee would be void, because each new
secret draws new permanent responses and spends the whole budget again. So the secret is created
once. A state that is missing, damaged or from a newer version is an error, which only
`recording.withdrawal.reset` can clear. An older copy of the state is accepted: it has the same
secret, so the permanent responses are the same again. But its ledger lacks later values.
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
MARKER_FILE = "witness.json"  # an empty file that exists since the first secret was created
SENDER_LOCK_FILE = "sender.lock"
WITHDRAWAL_FILE = "withdrawal"  # an empty file that exists only during a withdrawal


class StateDirectory:
    """A directory that contains only one installation's state files; its path is absolute."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self.state_path = os.path.join(self.path, STATE_FILE)
        self.sender_lock_path = os.path.join(self.path, SENDER_LOCK_FILE)
        self._marker_path = os.path.join(self.path, MARKER_FILE)
        self._withdrawal_path = os.path.join(self.path, WITHDRAWAL_FILE)

    def open(self, lock: threading.RLock, check_ledger: LedgerCheck | None = None) -> SqliteState:
        """Open and check the state; create it at first use. Raises StateError if that fails.

        `check_ledger` decodes the contents of the ledger, such as `recording.ledger.check_ledger`.
        """
        self.prepare()
        was_used = self._was_used()  # before the state is read, as the marker is created after it
        if was_used and not self.has_state():
            raise self.missing()
        state = self.connect(lock)
        try:
            with reading(self.state_path), state.snapshot():  # another process may write
                state.check(check_ledger)
                secret, generation = state.identity()
                if (secret_check(secret) if secret else b"") != (state.get("secret_check") or b""):
                    raise damaged(self.state_path, "the secret does not match its check")
                if generation == 0 and was_used:
                    raise self.missing()
        except BaseException:
            state.close()
            raise
        return state

    def connect(self, lock: threading.RLock, patience: float = PATIENCE) -> SqliteState:
        """Open another connection to a checked state. Raises StateError if that fails."""
        return SqliteState(self.state_path, lock, patience, is_new=not self._was_used())

    def ensure_secret(self, state: SqliteState, randomness: Randomness) -> None:
        """Create the secret if the state has none, as at the first start or on a new consent."""
        if state.identity().secret is None:
            with state.patient(), state.transaction():
                if state.identity().secret is None:
                    state.set_secret(new_secret(randomness))
            state.sync()  # a marker without a secret would mean that a state was lost
        self.mark_used()

    def mark_used(self) -> None:
        """Create a file that distinguishes a lost state from a state that was never created."""
        if not self._was_used():
            os.close(os.open(self._marker_path, os.O_WRONLY | os.O_CREAT, 0o600))

    def _was_used(self) -> bool:
        return os.path.exists(self._marker_path)

    @property
    def is_withdrawn(self) -> bool:
        """Return whether consent was withdrawn and the wipe is unfinished; if so, send nothing."""
        return os.path.exists(self._withdrawal_path)

    def has_state(self) -> bool:
        """Return whether the state file exists."""
        return os.path.exists(self.state_path)

    def file_id(self) -> tuple[int, int] | None:
        """Return an id of the state file that survives renames; None if there is no file."""
        try:
            status = os.stat(self.state_path)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def missing(self) -> StateError:
        """Return the error for a state that existed before and is missing now."""
        return StateError(
            f"{self.state_path} is missing, although it existed before; restore it, or call "
            "reset(), which draws a new secret and spends the privacy budget again",
            "state_missing",
        )

    def exists(self) -> bool:
        """Return whether the directory has files of an earlier run."""
        return self.has_state() or self._was_used()

    def begin_withdrawal(self) -> None:
        """Create a file that marks a withdrawal until it ends; the next start completes it."""
        with suppress(OSError):  # such as a disk that is full or read-only: see `is_withdrawn`
            os.close(os.open(self._withdrawal_path, os.O_WRONLY | os.O_CREAT, 0o600))

    def end_withdrawal(self) -> None:
        """Remove the file that `begin_withdrawal` created. Raises OSError if that fails."""
        with suppress(FileNotFoundError):
            os.unlink(self._withdrawal_path)

    def delete(self) -> None:
        """Overwrite the state's files in place, if the system permits, and delete them.

        Neither step needs room on the disk. A process that still has the files open will find them
        damaged. Raises OSError if a file can be neither overwritten nor deleted.
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
            except OSError as error:  # such as a read-only directory
                failed = failed if overwritten else error
        if failed is not None:
            raise failed

    def prepare(self) -> None:
        """Create the directory if it is missing. Raises StateError if it is unusable."""
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            mode = os.stat(self.path).st_mode & 0o7777
        except (OSError, ValueError) as error:
            raise unavailable(self.path, error) from error
        if os.name != "nt" and mode & 0o002:  # never changed, as other users depend on it
            raise StateError(
                f"{self.path} is writable by anyone (mode {mode:o}): name a subdirectory only for "
                "the client, which is created if missing"
            )


def _overwrite(path: str) -> None:
    """Overwrite a file with zeros, without making it longer. Raises OSError if that fails."""
    handle = os.open(path, os.O_WRONLY)
    try:
        size = os.fstat(handle).st_size
        while size > 0:
            size -= os.write(handle, bytes(min(size, 1 << 16)))
        os.fsync(handle)
    finally:
        os.close(handle)


class FileLock:
    """A lock on a file, held by one `FileLock` at a time across threads and processes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._handle: int | None = None

    def try_acquire(self) -> bool:
        """Acquire the lock without waiting; return whether that succeeded."""
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if os.name == "nt":
                from msvcrt import LK_NBLCK, locking  # type: ignore[attr-defined,unused-ignore]

                locking(handle, LK_NBLCK, 1)
            else:
                from fcntl import LOCK_EX, LOCK_NB, flock

                flock(handle, LOCK_EX | LOCK_NB)
        except OSError:  # another open file owns the lock
            os.close(handle)
            return False
        self._handle = handle
        return True

    def release(self) -> None:
        """Release the lock; in a forked child, the parent keeps its lock."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)
