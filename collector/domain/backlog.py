"""The batches that wait to be stored: bounds on their number, and answers to their requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from collector.errors import OverloadedError
from rappor_core.text import counted

Answered = TypeVar("Answered")


class Backlog:
    """How many batches, reports and bytes wait. The caller must hold a lock of its own."""

    def __init__(self, max_bytes: int) -> None:
        """max_bytes: that may wait; a larger batch waits alone."""
        self._max_bytes, self._bytes = max_bytes, 0
        self.reports = 0
        self.is_closed = False

    def take(self, reports: int, size: int) -> None:
        """Count a waiting batch. Raises OverloadedError if the bound would be passed."""
        if self.is_closed:
            raise OverloadedError("the collector is shutting down; send again later")
        if self.reports and self._bytes + size > self._max_bytes:
            raise OverloadedError(f"{counted(self.reports, 'report')} waiting; send again later")
        self.reports += reports
        self._bytes += size

    def give(self, reports: int, size: int) -> None:
        """Count a batch as stored or given up."""
        self.reports -= reports
        self._bytes -= size


def answer_on_loop(
    loop: asyncio.AbstractEventLoop, act: Callable[[Answered], None], answered: Answered
) -> None:
    """Answer requests on the event loop that waits for them; do nothing if it is closed."""
    try:
        loop.call_soon_threadsafe(act, answered)
    except RuntimeError:
        if not loop.is_closed():
            raise
