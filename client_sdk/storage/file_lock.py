"""A file lock that the operating system releases when its holder ends, however it ends."""

from __future__ import annotations

import os


class FileLock:
    """A lock on a file that one open file at a time holds, over threads and processes."""

    def __init__(self, path: str) -> None:
        """path: a file of its own; made if missing."""
        self._path = path
        self._handle: int | None = None

    def try_acquire(self) -> bool:
        """Acquire the lock without waiting; return whether it worked. Raises OSError where the
        file cannot be made."""
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(handle)
        except OSError:
            os.close(handle)
            return False
        self._handle = handle
        return True

    def release(self) -> None:
        """Let go; in a forked child, which inherits the open file, this leaves the parent's."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


def _lock(handle: int) -> None:
    """Raises OSError where another open file holds it."""
    if os.name == "nt":
        from msvcrt import LK_NBLCK, locking  # type: ignore[attr-defined,unused-ignore]

        locking(handle, LK_NBLCK, 1)
    else:
        from fcntl import LOCK_EX, LOCK_NB, flock

        flock(handle, LOCK_EX | LOCK_NB)
