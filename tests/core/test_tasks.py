"""Tasks run on engines that exist: results by task, and errors that name the engine."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import pytest

from rappor_core import tasks
from rappor_core.tasks import AHEAD, TaskError, open_executor, run_tasks
from tests.engines import ENGINES, dask_cluster, environment, last_json, program


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


def square_for_minutes(number: int) -> int:
    time.sleep(120)
    return number


STOPPED = """
from rappor_core.tasks import open_executor, run_tasks
from tests.core.test_tasks import square_for_minutes
with open_executor("local:2") as executor:
    print("opened", flush=True)
    list(run_tasks(square_for_minutes, range(100), executor))
"""


def test_ctrl_c_ends_the_processes_of_tasks() -> None:
    with program(STOPPED) as process:
        process.stdout.readline()
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in process.communicate(timeout=30)[1]


def test_a_killed_process_is_an_error() -> None:
    with pytest.raises(TaskError, match="was killed"), open_executor("local:2") as executor:
        list(run_tasks(end_of_process, range(4), executor))


def test_another_version_is_refused_by_name(monkeypatch) -> None:
    versions = iter(["0.4.0", "0.3.0"])
    monkeypatch.setattr(tasks, "_version", lambda: next(versions))
    with (
        threads() as executor,
        pytest.raises(TaskError, match=r"0\.3\.0, .* of 0\.4\.0: install"),
    ):
        list(run_tasks(square, [1], executor))


@pytest.mark.parametrize(
    ("on", "words"),
    [
        ("mpi", "'mpi': not the name of an engine; use local"),
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


KILLED = """
import json, sys
from rappor_core.tasks import open_executor, run_tasks
from tests.core.test_tasks import square_slowly
results = {}
with open_executor(sys.argv[1]) as executor:
    for task, result in run_tasks(square_slowly, range(100), executor):
        results[task] = result
        if len(results) == 20:
            print("20", flush=True)
print(json.dumps(sorted(results.items())))
"""


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_repeats_the_tasks_of_a_killed_worker(engine: str) -> None:
    with ENGINES[engine]() as cluster, program(KILLED, cluster.on) as process:
        assert process.stdout.readline() == "20\n", process.stderr.read()
        cluster.kill_worker()
        assert last_json(process) == [[n, n * n] for n in range(100)]


@pytest.mark.long
def test_tasks_that_kill_their_workers_are_an_error(monkeypatch) -> None:
    """Whether the scheduler gives a task up, or has no worker left to run it."""
    monkeypatch.setattr(tasks, "NO_WORKER_SECONDS", 3.0)
    for failures, words in (("0", "a worker was killed"), ("9", "no worker for .*: start workers")):
        with (
            dask_cluster(2, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES=failures) as cluster,
            pytest.raises(TaskError, match=words),
            open_executor(cluster.on) as executor,
        ):
            list(run_tasks(end_of_process, [1], executor))


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
def test_workers_that_differ_are_named(engine: str, tmp_path: Path) -> None:
    """Another version of the package, and a module that a worker does not have."""
    other = tmp_path / "other" / "rappor_telemetry-9.9.9.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Name: rappor-telemetry\nVersion: 9.9.9\n")
    (tmp_path / "only_here.py").write_text("def work(task):\n    return task\n")
    with ENGINES[engine](1, environment(other.parent)) as cluster:
        for before, work, words in (
            ("", "from tests.core.test_tasks import square as work", "has rappor-telemetry 9.9.9"),
            (f"sys.path.append({str(tmp_path)!r})", "from only_here import work",
             "scheduler cannot load the tasks (No module named 'only_here')"),
        ):  # fmt: skip
            with program(FAILING.format(before=before, work=work), cluster.on) as process:
                assert words in last_json(process)


FAILING = """
import json, sys
{before}
from rappor_core.tasks import TaskError, open_executor, run_tasks
{work}
try:
    with open_executor(sys.argv[1]) as executor:
        list(run_tasks(work, [1], executor))
except TaskError as error:
    print(json.dumps(str(error)))
"""
SILENT = """
import json, sys, time
from rappor_core.tasks import TaskError, open_executor
import {library}
started = time.monotonic()
try:
    with open_executor(sys.argv[1]):
        pass
except TaskError as error:
    print(json.dumps([str(error), time.monotonic() - started]))
"""


@pytest.mark.long
@pytest.mark.parametrize("is_silent", [True, False])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_scheduler_that_does_not_answer_is_an_error(engine: str, is_silent: bool) -> None:
    library, scheme, name = {
        "dask": ("distributed", "tcp", "Dask scheduler"),
        "spark": ("pyspark", "spark", "Spark master"),
    }[engine]
    pytest.importorskip(library, reason=f"the extra {engine} is not installed")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        if is_silent:
            silent.listen()
        address = f"{scheme}://127.0.0.1:{silent.getsockname()[1]}"
        text = SILENT.format(library=library)
        with program(text, f"{engine}:{address}") as process:
            sentence, seconds = last_json(process)
    assert sentence == f"no {name} at {address} answers within 10 s"
    assert seconds < 11


MEMORY = """
import json, os, sys
import psutil
from rappor_core.tasks import open_executor, run_tasks
from tests.core.test_tasks import counts_of
sizes = []
with open_executor(sys.argv[1]) as executor:
    for done, _ in enumerate(run_tasks(counts_of, range(6_250), executor)):
        if done in (1_250, 6_249):
            sizes.append([psutil.Process(int(pid)).memory_info().rss for pid in
                          (os.getpid(), sys.argv[2])])
print(json.dumps(sizes))
"""


def counts_of(number: int) -> bytes:
    return bytes(8 * 16 * 128)  # as many as the counts of an archive's task


@pytest.mark.long
def test_the_tasks_of_1e11_reports_take_no_memory() -> None:
    """The client's, and Dask's scheduler."""
    with (
        dask_cluster() as cluster,
        program(MEMORY, cluster.on, cluster.processes[0].pid) as process,
    ):
        sizes = last_json(process, 400)
    for early, late in zip(*sizes, strict=True):
        assert late - early < 16e6, sizes
