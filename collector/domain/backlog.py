"""Batches that wait to be stored: how many there may be, and how their requests are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from collector.errors import OverloadedError
from rappor_core.text import counted

Answered = TypeVar("Answered")


class Backlog:
    """How much waits. Whoever uses it holds a lock of its own."""

    def __init__(self, max_bytes: int) -> None:
        """max_bytes: that may wait; a larger batch waits alone."""
        self._max_bytes, self._bytes = max_bytes, 0
        self.reports = 0
        self.is_closed = False

    def take(self, reports: int, size: int) -> None:
        """Let a batch wait, of so many bytes. Raises OverloadedError where it may not."""
        if self.is_closed:
            raise OverloadedError("the collector is shutting down; send again later")
        if self.reports and self._bytes + size > self._max_bytes:
            raise OverloadedError(f"{counted(self.reports, 'report')} waiting; send again later")
        self.reports += reports
        self._bytes += size

    def give(self, reports: int, size: int) -> None:
        """What was taken waits no more."""
        self.reports -= reports
        self._bytes -= size


def answer_on_loop(
    loop: asyncio.AbstractEventLoop, act: Callable[[Answered], None], answered: Answered
) -> None:
    """Have the loop of the requests answer them; where it is closed, nobody waits any more."""
    try:
        loop.call_soon_threadsafe(act, answered)
    except RuntimeError:
        if not loop.is_closed():
            raise
