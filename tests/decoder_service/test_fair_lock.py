"""The lock that writers of SQLite take in turns."""

from __future__ import annotations

import struct
import sys
import threading
from pathlib import Path

import pytest

from rappor_server.fair_lock import FairLock
from tests.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="locks of open files are Linux's")


def drawn(path: Path) -> int:
    """How many numbers were drawn."""
    found: int = struct.unpack("<q", path.read_bytes()[:8])[0]
    return found


def test_who_asks_first_is_served_first(tmp_path: Path) -> None:
    """Also before who had the lock and asks again at once."""
    path, order = tmp_path / "turn", list[str]()
    lock = FairLock(path, 60)

    def ask(name: str) -> None:
        with FairLock(path, 60).held():
            order.append(name)

    with lock.held():
        threads = []
        for number in range(5):
            threads.append(threading.Thread(target=ask, args=(f"t{number}",)))
            threads[-1].start()
            until(lambda: drawn(path) >= len(threads) + 1)
    ask("again")
    for thread in threads:
        thread.join()
    assert order == ["t0", "t1", "t2", "t3", "t4", "again"]
