"""Cancellation of a different thread's exchanges: once `cancel` returns, nothing more is sent."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

STEP = 0.02  # seconds between two checks for a cancellation during a wait
PATIENCE = 1.0  # the maximum time that `cancel` waits for a thread that is not scheduled

_Result = TypeVar("_Result")


class CancelledError(Exception):
    """The exchange was canceled; raised in the sending thread."""


class Cancellation:
    """A flag with which any thread can permanently end the sending thread's exchanges."""

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._over = threading.Event()
        self._over.set()
        self.cancelled = False

    def cancel(self) -> None:
        """Prevent all further sending, and wait until the current exchange has been aborted.

        This takes about `STEP`. The wait ends after `PATIENCE`, but nothing is sent even then.
        """
        with self._gate:
            self.cancelled = True
        self._over.wait(PATIENCE)

    @contextmanager
    def exchange(self) -> Iterator[None]:
        """Wrap an exchange. If it is canceled, the caller must close its connection."""
        with self._gate:
            self.check()
            self._over.clear()
        try:
            yield
        finally:
            self._over.set()

    def sending(self, action: Callable[..., _Result], *arguments: object) -> _Result:
        """Run a non-blocking action that sends bytes. Raises CancelledError if canceled."""
        with self._gate:
            self.check()
            return action(*arguments)

    def pause(self, deadline: float, wait: Callable[[float], bool]) -> None:
        """Call `wait` repeatedly, with at most `STEP` seconds each, until it returns True.

        `deadline` is on the monotonic clock. Raises CancelledError if canceled, or TimeoutError
        after the deadline.
        """
        while True:
            self.check()
            seconds = deadline - time.monotonic()
            if seconds <= 0:
                raise TimeoutError
            if wait(min(seconds, STEP)):
                return

    def check(self) -> None:
        """Raise CancelledError if sending was canceled."""
        if self.cancelled:
            raise CancelledError
