"""Calls of the app that wait in memory while another process or thread holds the state.

What an app records meanwhile is kept here, a little of it, and written by the sending thread. It is
never written anywhere else: a withdrawal forgets it, and so does the end of the process.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable

from client_sdk.errors import StateBusyError
from rappor_core.hashing import MAX_VALUE_CHARS

MAX_HELD = 1_000
MAX_WAIT = 1.0  # seconds, for another thread that is at it
MAX_WAIT_FOR_ROOM = 0.25  # seconds for which a call waits where as many as may be wait already
TURN = 0.005  # seconds between two looks for room
SOME = 50  # calls that a thread of the app writes at once
BUSY_REST = 0.1  # seconds after the state was found held, in which the app's threads do not try
REST = 10.0  # seconds after such a wait in vain, in which no call waits
PLAIN = (str, bool, int, float)  # nothing that the app may still change
MAX_INT_BITS = 64
MAX_PARTS = 8  # of a tuple: a point, or a moment

Write = Callable[..., object]


class Overflow:
    """At most 1,000 calls that wait in memory while the state is busy. For any thread.

    calls: what waits. Only this class changes it.
    """

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        """Nothing waits.

        Args:
            failed: Called with an error, other than a busy state, of one call.
        """
        self.calls: deque[tuple[Write, tuple[object, ...]]] = deque()
        self._failed = failed
        self._lock = threading.Lock()  # of `write_out`: one thread at a time
        self._room = threading.Condition()
        self._rest_until = self._busy_until = 0.0  # time.monotonic()
        self._ended = False

    def _is_full(self) -> bool:
        return len(self.calls) >= MAX_HELD

    def _wait_for_room(self) -> bool:
        """Slow down a burst that is faster than the disk; no app is held up again and again."""
        deadline = time.monotonic() + MAX_WAIT_FOR_ROOM
        while self._is_full():
            if not self._rest_until < time.monotonic() < deadline:
                self._rest_until = max(self._rest_until, deadline + REST)
                return False
            self.write_some()
            with self._room:
                self._room.wait_for(lambda: not self._is_full(), TURN)
        return True

    def hold(self, write: Write, *arguments: object) -> bool:
        """Keep a call for later, in a burst once there is room. Return False if it cannot be kept:
        too many wait, or it has other than plain values.

        write: what is called with the arguments; raises StateBusyError to be called again.
        """
        if self._ended or not all(map(_is_plain, arguments)):
            return False
        if self._is_full() and not self._wait_for_room():
            return False
        self.calls.append((write, arguments))
        return True

    def write_some(self) -> bool:
        """Write some of what waits, if no other thread is at it and the state was not found held a
        moment ago: an app that keeps recording does not wait for the sending thread.

        Returns whether nothing waits now.
        """
        free = self.calls and time.monotonic() >= self._busy_until
        if free and self._lock.acquire(blocking=False):
            try:
                for _ in range(SOME):
                    if not self.calls:
                        break
                    self._write_first()
            except StateBusyError:
                self._busy_until = time.monotonic() + BUSY_REST
            finally:
                self._lock.release()
        return not self.calls

    def write_out(self, seconds: float = math.inf) -> None:
        """Write what waits, the oldest first; begin no more once `seconds` are over.

        Raises StateBusyError where the state is held.
        """
        deadline = time.monotonic() + seconds
        if not self.calls or not self._lock.acquire(timeout=min(seconds, MAX_WAIT)):
            return
        try:
            while self.calls and time.monotonic() <= deadline:
                self._write_first()
        finally:
            self._lock.release()

    def _write_first(self) -> None:
        write, arguments = self.calls[0]
        try:
            write(*arguments)
        except StateBusyError:
            raise
        except Exception as error:  # this call's alone, or the state's: not tried again
            self._failed(error)
        if self.calls:  # not forgotten meanwhile
            self.calls.popleft()
        with self._room:
            self._room.notify()

    def forget(self) -> int:
        """Drop all waiting calls and take no more. Return how many were dropped."""
        self._ended = True
        dropped = len(self.calls)
        self.calls.clear()
        return dropped


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return len(value) <= MAX_PARTS and all(map(_is_plain, value))
    if type(value) not in PLAIN:
        return False
    if isinstance(value, str):
        return len(value) <= MAX_VALUE_CHARS
    return not isinstance(value, int) or value.bit_length() <= MAX_INT_BITS
