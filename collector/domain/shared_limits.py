"""Rates of all processes on one database: what each took is added up every second."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from collector.errors import StorageError
from collector.store.database import CollectorDatabase
from collector.store.rate_limits import share
from rappor_server.limits import SharedRateLimit

Taken = dict[bytes, float]
OnThread = Callable[[Callable[[Taken], Taken], Taken], Awaitable[Taken]]

SHARE_SECONDS = 1.0


class SharedLimits:
    """Adds the counts of this process's rate limits to those of all other processes."""

    def __init__(self, limits: Sequence[SharedRateLimit], database: CollectorDatabase) -> None:
        self._limits = limits
        self._database = database

    @property
    def is_on(self) -> bool:
        """Whether any limit is shared."""
        return bool(self._limits)

    async def share(self, on_thread: OnThread) -> None:
        """Exchange counts with the database once. Raises StorageError where it is away; limits
        are each process's own meanwhile.

        on_thread: calls a function with an argument, on a thread that may wait for the database.
        """
        taken = {name: one for limit in self._limits for name, one in limit.take_out().items()}
        try:
            waits = await on_thread(self._exchange, taken)
        except StorageError:
            for limit in self._limits:
                limit.put_back(taken)
            raise
        for limit in self._limits:
            limit.set_levels(waits)

    def _exchange(self, taken: Taken) -> Taken:
        with self._database.add() as connection:
            return share(connection, taken)
