"""Memory for the bodies of requests, shared out by address. No address is stored or logged."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

from rappor_server.errors import OverloadedError

_FULL = "too many bodies are arriving at once; send again later"
_WAITING = "too many large bodies are waiting to be read; send again later"


@dataclass(slots=True, eq=False)
class Arriving:
    """A request body that has arrived in part.

    address: of its sender, "" where there is none.  deadline: ends the wait for more of it.
    moment: sum over its bytes of the time at which each arrived.
    """

    address: str
    deadline: asyncio.Timeout
    size: int = 0
    moment: float = 0.0
    evicted: bool = False

    def age(self, now: float) -> float:
        """How long the bytes received so far have been held, on average, in seconds."""
        return now - self.moment / self.size if self.size else 0.0


class Buffers:
    """The memory for request bodies that arrive or wait to be read, bounded in all and shared
    out by address.

    When they are full, the bodies whose bytes have been here longest are given up first, those of
    addresses that hold more than an equal share. What waits to be read takes half at most, and of
    one address a quarter, so that there is always room for others to arrive.
    """

    def __init__(self, max_bytes: int, *, seconds: Callable[[], float] = monotonic) -> None:
        """Hold nothing yet. seconds: a clock."""
        self._max_bytes = max_bytes
        self._seconds = seconds
        self._held = 0
        self._by_address: Counter[str] = Counter()
        self._arriving: set[Arriving] = set()
        self._waiting: Counter[str] = Counter()

    @property
    def num_bytes(self) -> int:
        """Number of bytes that are held now."""
        return self._held

    @contextmanager
    def arriving(self, address: str, deadline: asyncio.Timeout) -> Iterator[Arriving]:
        """Reserve room for a body while its bytes arrive; give the room back on leaving."""
        body = Arriving(address, deadline)
        self._arriving.add(body)
        try:
            yield body
        finally:
            self._let_go(body)

    def take(self, body: Arriving, size: int) -> None:
        """Hold `size` more bytes of a body. Raises OverloadedError where there is no room."""
        now = self._seconds()
        if self._held + size > self._max_bytes:
            self._make_room(size, now)
        if body.evicted or self._held + size > self._max_bytes:
            raise OverloadedError(_FULL)
        body.size += size
        body.moment += size * now
        self._add(body.address, size)

    @contextmanager
    def holding(self, address: str, size: int) -> Iterator[None]:
        """Hold a whole body while it waits to be read. Raises OverloadedError."""
        total, own = self._waiting.total(), self._waiting[address]
        if (total and total + size > self._max_bytes // 2) or (
            own and own + size > self._max_bytes // 4
        ):
            raise OverloadedError(_WAITING)
        if self._held + size > self._max_bytes:
            self._make_room(size, self._seconds())
        self._waiting[address] += size
        self._add(address, size)
        try:
            yield
        finally:
            self._waiting[address] -= size
            if not self._waiting[address]:
                del self._waiting[address]
            self._add(address, -size)

    def _make_room(self, size: int, now: float) -> None:
        """Give up the slowest bodies: a sixteenth of all at once, so that it is seldom done."""
        target = self._max_bytes - max(size, self._max_bytes // 16)
        share = self._held / max(1, len(self._by_address))
        for body in sorted(self._arriving, key=lambda one: one.age(now), reverse=True):
            if self._held <= target:
                return
            if body.size and self._by_address[body.address] >= share:
                self._evict(body)

    def _evict(self, body: Arriving) -> None:
        self._let_go(body)
        body.evicted = True
        if not body.deadline.expired():
            body.deadline.reschedule(0)

    def _let_go(self, body: Arriving) -> None:
        if body in self._arriving:
            self._arriving.remove(body)
            self._add(body.address, -body.size)

    def _add(self, address: str, size: int) -> None:
        self._held += size
        self._by_address[address] += size
        if not self._by_address[address]:
            del self._by_address[address]
