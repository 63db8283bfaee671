"""Whether the database can be written now, at a cost that does not grow with the callers."""

import asyncio
from collections.abc import Callable
from time import monotonic

from rappor_server.errors import StorageError

MAX_AGE = 1.0  # seconds for which a finding is given again
WRITE_EVERY = 10.0  # seconds between two trial writes while nothing has failed
TRIAL_BYTES = 1 << 20  # of a trial write, as many as a large batch or a result has


class Readiness:
    """Reads from the database at most once a second, and writes to it where that is in doubt.

    read, write: raise StorageError where the database cannot.  is_failing: whether a write was
    refused since the last trial write; then each finding takes one, so that a full disk is found,
    and its end as well. For one event loop.
    """

    def __init__(
        self,
        read: Callable[[], None],
        write: Callable[[], None],
        is_failing: Callable[[], bool],
        *,
        seconds: Callable[[], float] = monotonic,
    ) -> None:
        self._read, self._write, self._is_failing = read, write, is_failing
        self._seconds = seconds
        self._error: StorageError | None = None
        self._checked = self._written = float("-inf")
        self._lock = asyncio.Lock()

    async def check(self) -> None:
        """Raise StorageError if the database could not be written at the latest check; callers
        share one check a second."""
        async with self._lock:
            if self._seconds() - self._checked >= MAX_AGE:
                in_doubt = self._error is not None or self._is_failing()
                try:
                    await asyncio.to_thread(self._read)
                    if in_doubt or self._seconds() - self._written >= WRITE_EVERY:
                        await asyncio.to_thread(self._write)
                        self._written = self._seconds()
                    self._error = None
                except StorageError as error:
                    self._error = error
                self._checked = self._seconds()
        if self._error is not None:
            raise StorageError(str(self._error))
