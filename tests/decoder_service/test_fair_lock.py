"""The lock that writers of SQLite take in turns."""

from __future__ import annotations

import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rappor_server.fair_lock import FairLock
from tests.waiting import until

HOLD = (
    "import sys; from pathlib import Path; from rappor_server.fair_lock import FairLock\n"
    "with FairLock(Path(sys.argv[1]), 60).held(): print('held', flush=True); sys.stdin.read()"
)
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="locks of open files are Linux's")


@contextmanager
def holder(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has the lock."""
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


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


def test_a_killed_process_gives_its_turn_back(tmp_path: Path) -> None:
    path = tmp_path / "turn"
    with holder(path) as process:
        threading.Timer(0.2, process.kill).start()
        with FairLock(path, 60).held():
            assert process.wait(10) == -9


def test_a_stopped_process_delays_nobody_for_long(tmp_path: Path) -> None:
    path = tmp_path / "turn"
    with holder(path) as process, FairLock(path, 0.1).held():
        assert process.poll() is None


def test_without_a_file_nobody_waits(tmp_path: Path) -> None:
    with FairLock(tmp_path / "none" / "turn", 60).held(), FairLock(tmp_path / "none", 1).held():
        pass
