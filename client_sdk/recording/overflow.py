"""Calls of the app that wait in memory while another process or thread holds the state.

On a slow disk a commit that is written through holds the state for longer than an app's call may
wait. What was to be recorded meanwhile is kept here, a little of it, and written by the sending
thread. It is never written anywhere else: a withdrawal forgets it, and so does the end of the
process.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable

from client_sdk.errors import StateBusyError
from client_sdk.randomisation.metric_encoder import MAX_VALUE_CHARS

MOST_HELD = 1_000
LONGEST_WAIT = 1.0  # seconds, for another thread that is at it
PLAIN = (str, bool, int, float)  # nothing that the app may still change
MAX_INT_BITS = 64
MOST_PARTS = 8  # of a tuple: a point, or a moment

Write = Callable[..., object]


class Overflow:
    """Calls of `record` that wait in memory while the state is busy: at most 1,000, with their
    times, in order. For any thread.

    failed: told of an error, other than a busy state, of one call.
    """

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        """Nothing waits."""
        self._failed = failed
        self._waiting: deque[tuple[Write, tuple[object, ...]]] = deque()
        self._lock = threading.Lock()  # of `write_out`: one thread at a time
        self._ended = False

    def __len__(self) -> int:
        """How many calls wait."""
        return len(self._waiting)

    def hold(self, write: Write, *arguments: object) -> bool:
        """Keep a call for later. Return False if it cannot be kept: too many wait, or it has
        other than plain values.

        write: what is called with the arguments; raises StateBusyError to be called again.
        """
        if self._ended or len(self._waiting) >= MOST_HELD or not all(map(_is_plain, arguments)):
            return False
        self._waiting.append((write, arguments))
        return True

    def write_out(self, seconds: float = math.inf) -> None:
        """Write what waits, the oldest first; begin no more once `seconds` are over.

        Raises StateBusyError where the state is held.
        """
        deadline = time.monotonic() + seconds
        if not self._waiting or not self._lock.acquire(timeout=min(seconds, LONGEST_WAIT)):
            return
        try:
            while self._waiting and time.monotonic() <= deadline:
                self._write_first()
        finally:
            self._lock.release()

    def _write_first(self) -> None:
        write, arguments = self._waiting[0]
        try:
            write(*arguments)
        except StateBusyError:
            raise
        except Exception as error:  # this call's alone, or the state's: not tried again
            self._failed(error)
        if self._waiting:  # not forgotten meanwhile
            self._waiting.popleft()

    def forget(self) -> int:
        """Drop all waiting calls and take no more. Return how many were dropped."""
        self._ended = True
        dropped = len(self._waiting)
        self._waiting.clear()
        return dropped


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return len(value) <= MOST_PARTS and all(map(_is_plain, value))
    if type(value) not in PLAIN:
        return False
    if isinstance(value, str):
        return len(value) <= MAX_VALUE_CHARS
    return not isinstance(value, int) or value.bit_length() <= MAX_INT_BITS
