"""A lock between threads and processes that is granted in the order of the requests.

A ticket lock (Mellor-Crummey and Scott 1991) on a file: each who asks draws the next number and
locks the byte of that number; it has the lock when no lower byte is locked. A process that dies
gives its bytes back. The locks are those of an open file description, which Linux has; elsewhere,
and where the file cannot be written, nobody waits here.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_LOCK = getattr(fcntl, "F_OFD_SETLK", None)
_LOCK_AND_WAIT = getattr(fcntl, "F_OFD_SETLKW", 0)
_WHO_HOLDS = getattr(fcntl, "F_OFD_GETLK", 0)
_FLOCK = "hh4xqqi4x"  # struct flock of Linux: type, whence, start, length, process
_COUNTER = "<q"  # the last number that was drawn, at the beginning of the file
_LOOKS = (0.001, 0.004)  # seconds between two looks, at first and later
_FIRST_LOOKS = 50


class FairLock:
    """A first-come-first-served lock on a file. It is advisory: a waiter that has waited for
    `patience` seconds goes ahead without it."""

    def __init__(self, path: Path, patience: float) -> None:
        """Open nothing yet. patience: seconds; others may have been stopped with the lock."""
        self._path = path
        self._patience = patience

    @contextmanager
    def held(self) -> Iterator[None]:
        """Acquire the lock for the block; later requests wait until the block ends."""
        file = self._open()
        try:
            if file is not None:
                self._wait(file, _draw(file))
            yield
        finally:
            if file is not None:
                os.close(file)  # and with it the locks

    def _open(self) -> int | None:
        """A description of its own for each who asks; None where there is no such lock."""
        if _LOCK is None:
            return None
        with suppress(OSError):
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return None

    def _wait(self, file: int, number: int) -> None:
        deadline = monotonic() + self._patience
        looks = 0
        while number > 1 and _is_held(file, 1, number - 1) and monotonic() < deadline:
            sleep(_LOOKS[looks >= _FIRST_LOOKS])
            looks += 1


def _draw(file: int) -> int:
    """The next number, from 1 on, whose byte is locked; 0 where none can be drawn."""
    try:
        _set(file, _LOCK_AND_WAIT, fcntl.F_WRLCK, 0)
        size = struct.calcsize(_COUNTER)
        drawn = os.pread(file, size, 0)
        number: int = 1 + (struct.unpack(_COUNTER, drawn)[0] if len(drawn) == size else 0)
        os.pwrite(file, struct.pack(_COUNTER, number), 0)
        _set(file, _LOCK or 0, fcntl.F_WRLCK, number)
        _set(file, _LOCK or 0, fcntl.F_UNLCK, 0)
    except OSError:
        return 0
    return number


def _set(file: int, command: int, kind: int, byte: int) -> None:
    fcntl.fcntl(file, command, struct.pack(_FLOCK, kind, os.SEEK_SET, byte, 1, 0))


def _is_held(file: int, first: int, length: int) -> bool:
    """Whether somebody else has locked one of these bytes."""
    asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, first, length, 0)
    found: int = struct.unpack(_FLOCK, fcntl.fcntl(file, _WHO_HOLDS, asked))[0]
    return found != fcntl.F_UNLCK
