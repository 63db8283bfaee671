"""Starts workers by forking a process that has imported everything already, which takes seconds."""

import json
import os
import signal
import subprocess
import sys
from types import TracebackType
from typing import Any, Self

import psutil

from decoder_service.shell.server import work
from tests.decoder_service.support import ROOT, settings_of

# not `-m`: the processes of jobs import the program of their worker again
_PROGRAM = "from tests.decoder_service.worker_nursery import main; main()"


class Nursery:
    """Forks workers on one database; on leaving it, all that still run are ended."""

    def __init__(self, database: str, **settings: Any) -> None:
        self._line = json.dumps({"database": database, **settings})
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            env=os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )
        self._started: list[psutil.Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self._process.communicate()  # the end of its input is its own

    def start(self) -> psutil.Process:
        assert self._process.stdout is not None
        self._process.stdin.write(self._line + "\n")
        self._process.stdin.flush()
        worker = psutil.Process(int(self._process.stdout.readline()))
        self._started.append(worker)
        return worker

    def stop(self) -> None:
        live = [one for one in self._started if one.is_running()]
        for one in live:
            one.terminate()
        _, left = psutil.wait_procs(live, timeout=60)
        for one in left:
            one.kill()
        assert not left, "a worker did not stop when asked"
        self._started.clear()


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # a worker that is killed leaves no zombie
    for line in iter(sys.stdin.readline, ""):
        child = os.fork()
        if child == 0:
            _work(json.loads(line))
        print(child, flush=True)


def _work(settings: dict[str, Any]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.close(sys.stdin.fileno())
    os.open(os.devnull, os.O_RDONLY)
    try:
        work(settings_of(**settings))
    finally:
        os._exit(0)
