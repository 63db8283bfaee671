"""Values that wait in memory while another process or thread holds the state.

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

Write = Callable[[str, object, float], object]


class Overflow:
    """At most 1,000 calls of `record`, each with its time. Any thread may call.

    write: as `Recorder.record`.  failed: told of an error, other than a busy state, of one value.
    """

    def __init__(self, write: Write, failed: Callable[[Exception], None]) -> None:
        """Nothing waits."""
        self._write = write
        self._failed = failed
        self._waiting: deque[tuple[str, object, float]] = deque()
        self._lock = threading.Lock()  # of `write_out`: one thread at a time
        self._ended = False

    def __len__(self) -> int:
        """How many values wait."""
        return len(self._waiting)

    def hold(self, name: str, value: object, now: float) -> bool:
        """Keep a value for later. False where it cannot be: too many, or not a plain value."""
        if self._ended or len(self._waiting) >= MOST_HELD or not _is_plain(value):
            return False
        self._waiting.append((name, value, now))
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
        name, value, now = self._waiting[0]
        try:
            self._write(name, value, now)
        except StateBusyError:
            raise
        except Exception as error:  # this value's alone, or the state's: not tried again
            self._failed(error)
        if self._waiting:  # not forgotten meanwhile
            self._waiting.popleft()

    def forget(self) -> int:
        """Drop what waits, and take nothing more. Returns how many it dropped."""
        self._ended = True
        dropped = len(self._waiting)
        self._waiting.clear()
        return dropped


def _is_plain(value: object) -> bool:
    if type(value) not in PLAIN:
        return False
    if isinstance(value, str):
        return len(value) <= MAX_VALUE_CHARS
    return not isinstance(value, int) or value.bit_length() <= MAX_INT_BITS
