"""Answers that clients have not read yet, bounded in bytes and in time."""

from __future__ import annotations

import asyncio
from typing import Protocol

LEAST_RATE = 16 << 10  # bytes a second that a reader of a long answer must take
KEY = "rappor.unsent"  # in the state of the lifespan, where a connection finds its `Unsent`
MAX_BYTES = 64 << 20
SECONDS = 20.0


class Writer(Protocol):
    """The methods of an asyncio transport that this module calls."""

    def get_write_buffer_size(self) -> int:
        """Number of bytes that wait to be sent."""
        ...

    def abort(self) -> None:
        """Close at once, without sending what waits."""
        ...


class Unsent:
    """All connections whose peer does not read its answer, and how many bytes wait for them in
    memory.

    A connection is cut off when its answer was not taken in time, or when all together hold more
    than the bound; then the one that has waited longest goes first. Used by one event loop;
    `num_bytes` may be read from any thread.
    """

    def __init__(self, max_bytes: int = MAX_BYTES, seconds: float = SECONDS) -> None:
        """Wait for nothing yet.

        Args:
            max_bytes: of all connections together.
            seconds: to take an answer; a long one has a second more for each `LEAST_RATE` bytes.
        """
        self._max_bytes = max_bytes
        self._seconds = seconds
        self._waiting: dict[Writer, tuple[int, asyncio.TimerHandle]] = {}
        self._total = 0  # of the sizes when each began to wait; what waits now is less

    @property
    def num_bytes(self) -> int:
        """Number of bytes that wait to be sent now."""
        return sum(writer.get_write_buffer_size() for writer in tuple(self._waiting))

    def begin(self, writer: Writer) -> None:
        """Start the time of a connection whose bytes were not taken at once."""
        self.end(writer)
        size = writer.get_write_buffer_size()
        seconds = self._seconds + size / LEAST_RATE
        timer = asyncio.get_running_loop().call_later(seconds, self._cut_off, writer)
        self._waiting[writer] = size, timer
        self._total += size
        while self._total > self._max_bytes:
            self._cut_off(next(iter(self._waiting)))

    def end(self, writer: Writer) -> None:
        """Forget a connection whose bytes were all taken, or that is gone."""
        size, timer = self._waiting.pop(writer, (0, None))
        self._total -= size
        if timer is not None:
            timer.cancel()

    def _cut_off(self, writer: Writer) -> None:
        self.end(writer)
        writer.abort()
