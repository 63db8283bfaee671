"""App calls that wait in memory while another process or thread uses the state.

A limited number of calls is stored here until the sending thread writes them. They are never stored
anywhere else, so that a withdrawal of consent or the end of the process deletes them.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable

from client_sdk.errors import StateBusyError
from rappor_core.hashing import MAX_VALUE_CHARS

MAX_HELD = 1_000
MAX_WAIT = 1.0  # seconds to wait for another thread that is writing
MAX_WAIT_FOR_ROOM = 0.25  # seconds that a call waits if the maximum number is already waiting
TURN = 0.005  # seconds between two checks for room
SOME = 50  # the maximum number of calls that an app thread writes at once
BUSY_REST = 0.1  # seconds after a busy state during which app threads do not retry
REST = 10.0  # seconds after a futile wait during which no call waits
PLAIN = (str, bool, int, float)  # the immutable types that an argument may have
MAX_INT_BITS = 64
MAX_PARTS = 8  # the maximum length of a tuple: a point, or a moment

Write = Callable[..., object]


class Overflow:
    """A queue of at most 1,000 calls that wait in memory while the state is busy.

    Any thread may use it. Only this class changes `calls`.
    """

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        """Start with an empty queue.

        Args:
            failed: A function that is called with any error of a call except a busy state.
        """
        self.calls: deque[tuple[Write, tuple[object, ...]]] = deque()
        self._failed = failed
        self._lock = threading.Lock()  # allows one thread at a time in `write_out`
        self._room = threading.Condition()
        self._rest_until = self._busy_until = 0.0  # values of time.monotonic()
        self._ended = False

    def _is_full(self) -> bool:
        return len(self.calls) >= MAX_HELD

    def _wait_for_room(self) -> bool:
        """Wait briefly, and not often, for room in the queue; return False if there is none."""
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
        """Store a call for later; return False if that is not possible.

        In a burst, wait for room. A call cannot be stored if too many calls wait, or if an argument
        is not a plain value. `write` is called with the arguments; it raises StateBusyError to be
        called again.
        """
        if self._ended or not all(map(_is_plain, arguments)):
            return False
        if self._is_full() and not self._wait_for_room():
            return False
        self.calls.append((write, arguments))
        return True

    def write_some(self) -> bool:
        """Write some waiting calls, unless another thread is writing or the state was just busy.

        An app thread calls this before its own call. Return whether the queue is empty now.
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
        """Write the waiting calls, oldest first; start no more calls after `seconds`.

        Raises StateBusyError if the state is busy.
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
        except Exception as error:  # an error in this call or in the state: do not retry
            self._failed(error)
        if self.calls:  # unless deleted in the meantime
            self.calls.popleft()
        with self._room:
            self._room.notify()

    def forget(self) -> int:
        """Drop all waiting calls and accept no new calls. Return the number of dropped calls."""
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
