"""Waiting for what another thread or process does, where nothing can be waited on."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

EVERY = 0.01
ACCOUNT = Path("/proc/thread-self/schedstat")  # nanoseconds at work, and ready to work


def until(
    is_so: Callable[[], object],
    seconds: float = 20,
    *,
    every: float = EVERY,
    shown: Callable[[], object] = lambda: "",
) -> None:
    """Look until something holds. Raises AssertionError, with what is `shown`, if it does not."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"not within {seconds} s {shown()}"
        time.sleep(every)


def flush_in_vain(client: Any, shows: Callable[[], object]) -> None:
    """Flush until a failure shows. Raises AssertionError where a flush succeeds."""

    def shows_now() -> object:
        assert not client.flush(0.1)
        return shows()

    until(shows_now)


def waited(call: Callable[[], object]) -> float:
    """Seconds for which this thread waits in a call: for a lock, an answer, a timer or the disk.

    Neither its own work counts nor its turn behind other processes, where the kernel tells them
    (Linux), so that a busy machine does not fail a test of how long something waits.
    """
    start, active = time.monotonic(), _active()
    call()
    return time.monotonic() - start - (_active() - active)


def _active() -> float:
    if not ACCOUNT.exists():
        return 0.0
    at_work, ready, _ = ACCOUNT.read_text(encoding="ascii").split()
    return (int(at_work) + int(ready)) / 1e9
