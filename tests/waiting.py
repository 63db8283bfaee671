"""Waiting for what another thread or process does, where nothing can be waited on."""

from __future__ import annotations

import time
from collections.abc import Callable

EVERY = 0.01


def until(
    is_so: Callable[[], object],
    seconds: float = 20,
    *,
    every: float = EVERY,
    shown: Callable[[], object] = lambda: "",
) -> None:
    """Look again and again until something holds.

    seconds: after which the test fails; only a broken program takes so long.  every: seconds from
    one look to the next, more where a look costs much.  shown: what a
    failure tells.

    Raises AssertionError.
    """
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"not within {seconds} s {shown()}"
        time.sleep(every)
