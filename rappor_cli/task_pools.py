"""Pools that run the tasks of a command, in this process or in processes of this machine.

A task and its result travel by pickle; the work is a function at the top of a module.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Annotated, Any, Generic, Protocol, TypeVar

import typer

from rappor_core.errors import RapporError

T = TypeVar("T")
R = TypeVar("R")
Given = TypeVar("Given", covariant=True)
Workers = Annotated[int | None, typer.Option(min=1, help="Processes; else one a core.")]
_POOLS = 4  # that may break, one after the other
_AHEAD = 3  # tasks in flight for each worker


class PoolError(RapporError):
    """The processes of a pool ended before their work was done."""


class Pool(Protocol[T, Given]):
    """What runs each task to its end at least once, in any order."""

    def run(self, tasks: Iterable[T]) -> Iterator[tuple[T, Given]]:
        """Yield each task with its result; a task that was tried again may come twice."""


def pool_of(work: Callable[[T], R], workers: int | None, preload: Sequence[str] = ()) -> Pool[T, R]:
    """Make the pool that runs `work`: in this process for one worker, else in processes."""
    return SerialPool(work) if workers == 1 else LocalPool(work, workers, preload)


class SerialPool(Generic[T, R]):
    """A pool that runs the tasks in this process, one after the other."""

    def __init__(self, work: Callable[[T], R]) -> None:
        self._work = work

    def run(self, tasks: Iterable[T]) -> Iterator[tuple[T, R]]:
        """Run each task and yield it with its result."""
        return ((task, self._work(task)) for task in tasks)


class LocalPool(Generic[T, R]):
    """Runs the tasks in processes of this machine. A process that is killed is replaced.

    workers: as many as processors, if None.  preload: modules to load before processes fork.
    """

    def __init__(
        self, work: Callable[[T], R], workers: int | None = None, preload: Sequence[str] = ()
    ) -> None:
        self._workers = workers or os.cpu_count() or 1
        self._work = work
        self._preload = list(preload)

    def run(self, tasks: Iterable[T]) -> Iterator[tuple[T, R]]:
        """Run each task in processes of this machine. Raises PoolError where they keep dying."""
        left = iter(tasks)
        lost: list[T] = []
        for _ in range(_POOLS):
            running: dict[Future[R], T] = {}
            try:
                yield from self._run_pool(_chained(lost, left), running)
            except BrokenProcessPool:
                lost = list(running.values())
                continue
            return
        raise PoolError(
            f"processes ended {_POOLS} times before their work was done; is there enough memory?"
        )

    def _run_pool(self, tasks: Iterator[T], running: dict[Future[R], T]) -> Iterator[tuple[T, R]]:
        """running: what was begun and not given away yet."""
        context = _process_context(self._preload)
        with ProcessPoolExecutor(self._workers, mp_context=context) as pool:
            while True:
                for task in islice(tasks, max(0, _AHEAD * self._workers - len(running))):
                    running[_submitted(pool, self._work, task)] = task
                if not running:
                    return
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    result = future.result()
                    yield running.pop(future), result


def _process_context(preload: list[str]) -> Any:
    """Processes that hold nothing of this one; where the system can, forked from a clean one."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(preload)
    return context


def _submitted(pool: ProcessPoolExecutor, work: Callable[[T], R], task: T) -> Future[R]:
    """Submit; a pool that is broken answers with a future that says so."""
    try:
        return pool.submit(work, task)
    except BrokenProcessPool as error:
        broken: Future[R] = Future()
        broken.set_exception(error)
        return broken


def _chained(lost: list[T], left: Iterator[T]) -> Iterator[T]:
    yield from lost
    yield from left
