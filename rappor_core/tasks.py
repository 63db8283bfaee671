"""Functions that run tasks on local processes, Dask, Spark, or an executor that you name.

The work is a module-level function. The function, tasks and results are pickled, and a task must
not contain a key. An engine may run a task twice, so results must be stored by task. Devices do not
use this module.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from threading import Thread
from typing import Any, TypeVar

from rappor_core.errors import RapporError

T = TypeVar("T")
R = TypeVar("R")
AHEAD = 64  # the maximum number of unfinished tasks: it limits memory and usable threads
CONNECT_SECONDS = 10.0


class TaskError(RapporError):
    """An error of an engine, which is unreachable or did not finish the work."""


@contextmanager
def open_executor(on: str = "local", preload: Sequence[str] = ()) -> Iterator[Executor]:
    """Open the executor of an engine, and cancel its tasks if the block ends early.

    Args:
        on: `local`, `local:N` for N processes, `dask:tcp://HOST:PORT`, `spark`, `spark:MASTER`, or
            `package.module:function`, a function that returns a `concurrent.futures.Executor`.
        preload: The modules that local processes load once, before they fork.

    Yields:
        The executor.

    Raises:
        TaskError: The engine is unknown, not installed, or does not answer within 10 s.
    """
    kind, _, address = on.partition(":")
    closing = ExitStack()
    try:
        if kind == "local":
            executor: Executor = _processes(int(address) if address else None, preload)
        elif kind == "dask":
            client = _dask_client(address)
            closing.callback(client.close)
            executor = client.get_executor()
        elif kind == "spark":
            executor = _SparkExecutor(address)
        elif address:
            executor = getattr(import_module(kind), address)()
        else:
            raise ValueError("the name of no engine")
        if not isinstance(executor, Executor):
            raise ValueError("the function returned no Executor")
    except TaskError:
        raise
    except ModuleNotFoundError as error:
        hint = f": pip install 'rappor-telemetry[{kind}]'" if kind in ("dask", "spark") else ""
        raise TaskError(f"--on {on}: there is no module {error.name!r}{hint}") from error
    except Exception as error:  # raised by an engine, or by a function that the user named
        raise TaskError(
            f"--on {on!r}: {error}; use local[:N], dask:tcp://HOST:PORT, spark[:MASTER] or "
            "package.module:function"
        ) from error
    with closing:
        try:
            yield executor
        except BaseException:
            executor.shutdown(wait=False)
            raise
        executor.shutdown()


def run_tasks(
    work: Callable[[T], R], tasks: Iterable[T], executor: Executor | None = None
) -> Iterator[tuple[T, R]]:
    """Yield each task with its result, in the order of completion.

    Args:
        work: A function that computes the result of a task.
        tasks: Any number of tasks; at most `AHEAD` are read ahead of their results.
        executor: The executor of `open_executor`; None to run in this process.

    Raises:
        TaskError: A worker was killed more often than its engine repeats a task, or has a different
            version of this package.
    """
    if executor is None:
        yield from ((task, work(task)) for task in tasks)
        return
    checked, left = _SameVersion(work, _version()), iter(tasks)
    pending: dict[Future[R], T] = {}
    try:
        while True:
            for task in islice(left, AHEAD - len(pending)):
                pending[executor.submit(checked, task)] = task
            if not pending:
                return
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                task = pending.pop(future)
                yield task, future.result()
    except BrokenExecutor as error:
        raise TaskError("a process was killed; is there enough memory?") from error
    finally:
        for future in pending:
            future.cancel()


@dataclass(frozen=True)
class _SameVersion:
    """A task function that fails if the worker has a different version of this package."""

    work: Callable[[Any], Any]
    version: str

    def __call__(self, task: Any) -> Any:
        if (mine := _version()) != self.version:
            raise TaskError(
                f"a worker has rappor-telemetry {mine}, and the tasks are of {self.version}: "
                "install the same version on all workers"
            )
        return self.work(task)


@cache
def _version() -> str:
    try:
        return version("rappor-telemetry")
    except PackageNotFoundError:
        return "of a source tree"


def _processes(number: int | None, preload: Sequence[str]) -> Executor:
    import multiprocessing  # imported late, so that devices never load it
    from concurrent.futures import ProcessPoolExecutor

    can_fork = "forkserver" in multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if can_fork else "spawn")
    if can_fork:
        context.set_forkserver_preload(list(preload))
    return ProcessPoolExecutor(number, mp_context=context)


def _dask_client(address: str) -> Any:
    """Connect on a thread, because Dask's own timeout does not cover a silent scheduler."""
    open_client, future = import_module("distributed").Client, Future[Any]()

    def attempt() -> None:
        try:
            future.set_result(open_client(address, timeout=CONNECT_SECONDS))
        except BaseException as error:
            future.set_exception(error)

    Thread(target=attempt, daemon=True).start()
    try:
        return future.result(CONNECT_SECONDS + 0.5)
    except (TimeoutError, OSError) as error:
        raise TaskError(
            f"no Dask scheduler at {address} answers within {CONNECT_SECONDS:.0f} s"
        ) from error


def _outcome(work: Callable[[Any], Any], task: Any) -> tuple[Any, Exception | None]:
    """Return a task's result and its error, because Spark would pass a raised error on as text."""
    try:
        return work(task), None
    except Exception as error:
        return None, error


class _SparkExecutor(ThreadPoolExecutor):
    """An executor on Spark: each task is a job, and there is one thread per core."""

    def __init__(self, master: str) -> None:
        pyspark = import_module("pyspark")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else the first Python in PATH
        configuration = pyspark.SparkConf().setAppName("rappor")
        if master:
            configuration.setMaster(master)
        configuration.setIfMissing("spark.master", "local[*]")
        self._context = pyspark.SparkContext.getOrCreate(configuration)
        super().__init__(self._context.defaultParallelism)

    def submit(self, work: Any, /, task: Any) -> Any:  # type: ignore[override]
        """Submit a task; its job starts when a thread is free."""
        return super().submit(self._run, work, task)

    def _run(self, work: Callable[[Any], Any], task: Any) -> Any:
        run = partial(_outcome, work)
        result, error = self._context.parallelize([task], 1).map(run).collect()[0]
        if error is not None:
            raise error
        return result

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Stop Spark; running jobs are canceled unless `wait` is true."""
        if not wait:
            self._context.cancelAllJobs()
        super().shutdown(wait, cancel_futures=cancel_futures)
        self._context.stop()
