"""Tasks run on engines that exist: results by task, and errors that name the engine."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest

from rappor_core import tasks
from rappor_core.tasks import AHEAD, TaskError, open_executor, run_tasks
from tests.free_ports import free_port
from tests.waiting import until


def square(number: int) -> int:
    return number * number


def square_slowly(number: int) -> int:
    time.sleep(0.05)
    return number * number


def end_of_process(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def threads() -> Executor:
    return ThreadPoolExecutor(2)


@pytest.mark.parametrize("on", ["local:2", f"{__name__}:threads"])
def test_each_task_has_its_result(on: str) -> None:
    with open_executor(on) as executor:
        assert dict(run_tasks(square, range(200), executor)) == {n: n * n for n in range(200)}
    assert dict(run_tasks(square, range(3))) == {0: 0, 1: 1, 2: 4}


def test_tasks_are_taken_as_results_come() -> None:
    """However many tasks there are, few of them are held."""
    taken = 0

    def numbered() -> Iterator[int]:
        nonlocal taken
        for number in range(2_000):
            taken += 1
            yield number

    with threads() as executor:
        for done, _ in enumerate(run_tasks(square, numbered(), executor)):
            assert taken <= done + 1 + AHEAD
    assert taken == 2_000


def test_an_early_end_cancels_what_waits() -> None:
    started = time.monotonic()
    with suppress(KeyboardInterrupt), open_executor("local:1") as executor:
        for _ in run_tasks(square_slowly, range(10_000), executor):
            raise KeyboardInterrupt
    assert time.monotonic() - started < 10


def test_a_killed_process_is_an_error() -> None:
    with pytest.raises(TaskError, match="was killed"), open_executor("local:2") as executor:
        list(run_tasks(end_of_process, range(4), executor))


def test_another_version_is_refused_by_name(monkeypatch) -> None:
    versions = iter(["0.4.0", "0.3.0"])
    monkeypatch.setattr(tasks, "_version", lambda: next(versions))
    with threads() as executor, pytest.raises(TaskError, match=r"has .* 0\.3\.0, .* of 0\.4\.0"):
        list(run_tasks(square, [1], executor))


@pytest.mark.parametrize(
    ("on", "words"),
    [
        ("mpi", "'mpi': the name of no engine; use local"),
        ("local:many", "'local:many': invalid literal"),
        ("no_such_module:pool", "there is no module 'no_such_module'"),
        (f"{__name__}:pool", "has no attribute 'pool'"),
        ("os:getcwd", "returned no Executor"),
        ("json:loads", "missing 1 required positional argument"),
    ],
)
def test_unknown_engines_are_refused(on: str, words: str) -> None:
    with pytest.raises(TaskError, match=words), open_executor(on):
        pass


def listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def dask_cluster(workers: int = 2) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler and its workers in processes; their address and the workers."""
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    dask = [sys.executable, "-m", "distributed.cli"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = [*dask[:2], "distributed.cli.dask_scheduler", "--host", "127.0.0.1",
                 "--port", str(port), "--no-dashboard"]  # fmt: skip
    worker = [*dask[:2], "distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1",
              "--no-dashboard"]  # fmt: skip
    started = [subprocess.Popen(scheduler, **quiet)]
    try:
        until(lambda: listens(port))
        started += [subprocess.Popen(worker, **quiet) for _ in range(workers)]
        yield address, started[1:]
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.long
def test_dask_repeats_the_tasks_of_a_killed_worker() -> None:
    with dask_cluster() as (address, workers), open_executor(f"dask:{address}") as executor:
        results = {}
        for number, result in run_tasks(square_slowly, range(200), executor):
            results[number] = result
            if len(results) == 20:
                workers[0].send_signal(signal.SIGKILL)
    assert results == {n: n * n for n in range(200)}


@pytest.mark.long
@pytest.mark.parametrize("is_silent", [True, False])
def test_a_scheduler_that_does_not_answer_is_an_error(is_silent: bool) -> None:
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        if is_silent:
            silent.listen()
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        started = time.monotonic()
        with (
            pytest.raises(TaskError, match=f"no Dask scheduler at {address} answers"),
            open_executor(f"dask:{address}"),
        ):
            pass
    assert time.monotonic() - started < 20


SPARK = """
import json
from rappor_core.tasks import open_executor, run_tasks
from tests.core.test_tasks import square
with open_executor("spark:local[2]") as executor:
    print(json.dumps(sorted(run_tasks(square, range(50), executor))))
"""


@pytest.mark.long
def test_spark_runs_the_same_tasks() -> None:
    """In a separate process: Spark leaves a Java process and sockets behind."""
    pytest.importorskip("pyspark", reason="the extra spark is not installed")
    printed = subprocess.run([sys.executable, "-c", SPARK], stdout=subprocess.PIPE, check=True)
    assert json.loads(printed.stdout.splitlines()[-1]) == [[n, n * n] for n in range(50)]
