"""Whether the database can be written now, at a cost that does not grow with the callers."""

import asyncio
from collections.abc import Callable
from time import monotonic

from rappor_server.errors import StorageError

MAX_AGE = 5.0  # seconds for which a result is given again: a probe of a database writes to it


class Readiness:
    """Runs a check that raises StorageError, at most once in MAX_AGE. For one event loop."""

    def __init__(self, check: Callable[[], None], *, seconds: Callable[[], float] = monotonic):
        self._check, self._seconds = check, seconds
        self._error: StorageError | None = None
        self._checked = float("-inf")
        self._lock = asyncio.Lock()

    async def check(self) -> None:
        """Raise StorageError if the latest check did."""
        async with self._lock:
            if self._seconds() - self._checked >= MAX_AGE:
                try:
                    await asyncio.to_thread(self._check)
                    self._error = None
                except StorageError as error:
                    self._error = error
                self._checked = self._seconds()
        if self._error is not None:
            raise StorageError(str(self._error))
