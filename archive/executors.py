"""Who runs the tasks: processes of this machine, or a Dask cluster."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, Protocol
from uuid import uuid4

from archive.errors import ArchiveError
from archive.tasks import PartCounts, Task, count_part

Work = Callable[[Task], PartCounts]
Results = Iterator[tuple[Task, PartCounts]]
_POOLS = 4  # that may break, one after the other
_CONNECT_SECONDS = 10
_AHEAD = 3  # tasks in flight for each worker


class Executor(Protocol):
    """Runs each task to its end at least once, in any order."""

    def run(self, tasks: Iterable[Task]) -> Results:
        """Yield each task with its counts; a task that was tried again may come twice."""


class InProcess:
    """Runs the tasks here, one after the other."""

    def __init__(self, work: Work = count_part) -> None:
        self._work = work

    def run(self, tasks: Iterable[Task]) -> Results:
        """See Executor."""
        return ((task, self._work(task)) for task in tasks)


class LocalProcesses:
    """Runs the tasks in processes of this machine. A process that is killed is replaced."""

    def __init__(self, workers: int | None = None, work: Work = count_part) -> None:
        self._workers = workers or os.cpu_count() or 1
        self._work = work

    def run(self, tasks: Iterable[Task]) -> Results:
        """See Executor. Raises ArchiveError where processes keep dying."""
        left = iter(tasks)
        lost: list[Task] = []
        for _ in range(_POOLS):
            running: dict[Future[PartCounts], Task] = {}
            try:
                yield from self._run_pool(_chained(lost, left), running)
            except BrokenProcessPool:
                lost = list(running.values())
                continue
            return
        raise ArchiveError(
            f"processes ended {_POOLS} times before their work was done; is there enough memory?"
        )

    def _run_pool(self, tasks: Iterator[Task], running: dict[Future[PartCounts], Task]) -> Results:
        """running: what was begun and not given away yet."""
        context = _process_context()
        with ProcessPoolExecutor(self._workers, mp_context=context) as pool:
            while True:
                for task in islice(tasks, max(0, _AHEAD * self._workers - len(running))):
                    running[_submitted(pool, self._work, task)] = task
                if not running:
                    return
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    counts = future.result()
                    yield running.pop(future), counts


def _process_context() -> Any:
    """Processes that hold nothing of this one; where the system can, forked from a clean one."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["archive.tasks"])
    return context


def _submitted(pool: ProcessPoolExecutor, work: Work, task: Task) -> Future[PartCounts]:
    """Submit; a pool that is broken answers with a future that says so."""
    try:
        return pool.submit(work, task)
    except BrokenProcessPool as error:
        broken: Future[PartCounts] = Future()
        broken.set_exception(error)
        return broken


def _chained(lost: list[Task], left: Iterator[Task]) -> Iterator[Task]:
    yield from lost
    yield from left


class DaskCluster:
    """Runs the tasks as futures of a Dask cluster, whose workers have this package installed.

    A worker that dies loses its tasks to others; Dask sees to that.
    """

    def __init__(self, scheduler: str, work: Work = count_part) -> None:
        self._scheduler = scheduler
        self._work = work

    def run(self, tasks: Iterable[Task]) -> Results:
        """See Executor. Raises ArchiveError where no scheduler answers or workers keep dying."""
        distributed = _import_distributed()
        options = {"timeout": _CONNECT_SECONDS, "set_as_default": False}
        try:
            with distributed.Client(self._scheduler, **options) as client:
                yield from self._run_client(distributed, client, iter(tasks))
        except (OSError, TimeoutError, distributed.KilledWorker) as error:
            raise ArchiveError(f"the Dask cluster at {self._scheduler} failed: {error}") from error

    def _run_client(self, distributed: Any, client: Any, tasks: Iterator[Task]) -> Results:
        ahead = _AHEAD * max(1, sum(client.nthreads().values()))
        mine, running = uuid4().hex, dict[str, Task]()
        done = distributed.as_completed(loop=client.loop)

        def submit(count: int) -> None:
            for task in islice(tasks, count):
                key = f"rappor-{mine}-{task.file}-{task.first}"
                running[key] = task
                done.add(client.submit(self._work, task, key=key, pure=False, retries=2))

        submit(ahead)
        for future in done:
            counts = future.result()
            yield running.pop(future.key), counts
            future.release()
            submit(1)


def _import_distributed() -> Any:
    try:
        import distributed  # an extra, for who has a cluster
    except ImportError:
        raise ArchiveError(
            "the library 'distributed' is missing; pip install 'rappor-telemetry[dask]'"
        ) from None
    return distributed
