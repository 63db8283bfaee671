"""Ending what another thread sends: once `cancel` has returned, nothing more leaves."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

STEP = 0.02  # seconds between two looks at a cancellation, while something is waited for
PATIENCE = 1.0  # longest that `cancel` waits for a thread that does not get to run

_Result = TypeVar("_Result")


class CancelledError(Exception):
    """Raised in the thread that sends."""


class Cancellation:
    """A flag by which any thread can end the exchanges of the sending thread permanently."""

    def __init__(self) -> None:
        """Nothing is cancelled, and nothing under way."""
        self._gate = threading.Lock()
        self._over = threading.Event()
        self._over.set()
        self.cancelled = False

    def cancel(self) -> None:
        """Let nothing be sent from now on, and wait until what is under way has been broken off.

        That takes `STEP`; the wait is bounded by `PATIENCE`, after which still nothing is sent.
        """
        with self._gate:
            self.cancelled = True
        self._over.wait(PATIENCE)

    @contextmanager
    def exchange(self) -> Iterator[None]:
        """Surround an exchange; if it was cancelled, its connection is closed on leaving."""
        with self._gate:
            self.check()
            self._over.clear()
        try:
            yield
        finally:
            self._over.set()

    def sending(self, action: Callable[..., _Result], *arguments: object) -> _Result:
        """Do what puts bytes on the way and does not block. Raises CancelledError."""
        with self._gate:
            self.check()
            return action(*arguments)

    def pause(self, deadline: float, wait: Callable[[float], bool]) -> None:
        """Call `wait` with at most `STEP` seconds until it returns True.

        deadline: of the monotonic clock. Raises CancelledError, and TimeoutError past it.
        """
        while True:
            self.check()
            seconds = deadline - time.monotonic()
            if seconds <= 0:
                raise TimeoutError
            if wait(min(seconds, STEP)):
                return

    def check(self) -> None:
        """Raise CancelledError once the sending was ended."""
        if self.cancelled:
            raise CancelledError
