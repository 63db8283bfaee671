"""Run the tasks of a command in processes of this machine.

A task and its result travel by pickle; the work is a function at the top of a module.
"""

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Annotated, TypeVar

import typer

from rappor_core.errors import RapporError

T = TypeVar("T")
R = TypeVar("R")
Workers = Annotated[int | None, typer.Option(min=1, help="Processes; else one a core.")]


class PoolError(RapporError):
    """A process ended before its work was done."""


def run_tasks(
    work: Callable[[T], R],
    tasks: Iterable[T],
    workers: int | None = None,
    preload: Sequence[str] = (),
) -> Iterator[tuple[T, R]]:
    """Yield each task with its result, in the order in which they are done.

    Args:
        work: from a task to its result.
        tasks: any number of them.
        workers: processes; None for one a core, 1 for this process alone.
        preload: modules to load once, before processes fork.

    Raises:
        PoolError: a process was killed.
    """
    if workers == 1:
        yield from ((task, work(task)) for task in tasks)
        return
    can_fork = "forkserver" in multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if can_fork else "spawn")
    if can_fork:
        context.set_forkserver_preload(list(preload))
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        futures = {pool.submit(work, task): task for task in tasks}
        try:
            for future in as_completed(list(futures)):
                yield futures.pop(future), future.result()
        except BrokenProcessPool as error:
            raise PoolError("a process was killed; is there enough memory?") from error
