"""Functions that run tasks on local processes, Dask, Spark, or an executor that you name.

The work is a module-level function. The function, tasks and results are pickled, and a task must
not contain a key. An engine may run a task twice, so results must be stored by task. Devices do not
use this module.
"""

import os
import re
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
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
from time import monotonic
from typing import Any, TypeVar

from rappor_core.errors import RapporError

T = TypeVar("T")
R = TypeVar("R")
AHEAD = 64  # unfinished tasks on an engine that does not report how many workers it has
AHEAD_EACH = 4  # unfinished tasks per worker
CONNECT_SECONDS = 10.0
NO_WORKER_SECONDS = 120.0  # an engine without workers may start some
_LOOK_SECONDS = 1.0
_SAME = "install the same version of rappor-telemetry, with its extras, on all of them"
_SPARK_THREADS = 1024  # each waits for one job


class TaskError(RapporError):
    """An error of an engine that is unreachable or did not finish the work."""


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
    closing, stop = ExitStack(), None
    try:
        if kind == "local":
            executor: Any = _processes(int(address) if address else None, preload)
            stop = partial(_terminate, executor)
        elif kind == "dask":
            client = _dask_client(address)
            closing.callback(client.close)
            executor = client.get_executor(pure=False)
            executor.num_workers = lambda: sum(client.nthreads().values())
        elif kind == "spark":
            executor = _SparkExecutor(address)
        elif address:
            executor = getattr(import_module(kind), address)()
        else:
            raise ValueError("not the name of an engine")
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
            if stop is not None:
                stop()
            executor.shutdown(wait=False)
            raise
        executor.shutdown()


def run_tasks(
    work: Callable[[T], R], tasks: Iterable[T], executor: Executor | None = None
) -> Iterator[tuple[T, R]]:
    """Yield each task with its result, in the order of completion.

    Args:
        work: A function that computes the result of a task. Its errors are raised here.
        tasks: Any number of tasks; at most `AHEAD_EACH` per worker wait for their results.
        executor: The executor of `open_executor`; None to run in this process.

    Raises:
        TaskError: The engine did not finish a task: a worker was killed more often than the engine
            repeats a task, cannot load the task, or has another version of this package; or no
            worker was left for `NO_WORKER_SECONDS`.
    """
    if executor is None:
        yield from ((task, work(task)) for task in tasks)
        return
    checked, left = _CheckedWork(work, _version()), iter(tasks)
    pending: dict[Future[tuple[R, Exception | None]], T] = {}
    looked, busy, ahead = float("-inf"), monotonic(), AHEAD
    try:
        while True:
            if monotonic() - looked >= _LOOK_SECONDS:
                looked, workers = monotonic(), _on_engine(partial(_num_workers, executor))
                ahead = AHEAD if workers is None else max(1, AHEAD_EACH * workers)
                busy = busy if workers == 0 else looked
                if looked - busy >= NO_WORKER_SECONDS:
                    raise TaskError(
                        f"the engine had no worker for {looked - busy:.0f} s: start workers; if "
                        "they were killed, is there enough memory?"
                    )
            for task in islice(left, max(0, ahead - len(pending))):
                pending[_on_engine(partial(executor.submit, checked, task))] = task
            if not pending:
                return
            for future in wait(pending, _LOOK_SECONDS, return_when=FIRST_COMPLETED).done:
                task = pending.pop(future)
                result, error = _on_engine(future.result)
                if error is not None:
                    raise error
                yield task, result
    finally:
        for future in pending:
            future.cancel()


def _num_workers(executor: Any) -> int | None:
    """Return the number of tasks that an executor runs at once; None if unknown."""
    number = getattr(executor, "num_workers", getattr(executor, "_max_workers", None))
    number = number() if callable(number) else number
    return number if isinstance(number, int) else None


def _on_engine(call: Callable[[], R]) -> R:
    """Return the result of an engine's call. Raises TaskError, with the cause, if it fails."""
    try:
        return call()
    except Exception as error:
        name, text = type(error).__name__, f"{error}\n{error.__cause__ or ''}".strip()
        missing = re.search("No module named '[^']*'|Can't get attribute '[^']*'", text)
        if missing is not None:
            problem = f"a worker or scheduler cannot load the tasks ({missing[0]}): {_SAME}"
        elif name in ("KilledWorker", "BrokenProcessPool") or "exited unexpectedly" in text:
            problem = "a worker was killed, each time that it ran a task; is there enough memory?"
        elif name in ("CancelledError", "FutureCancelledError"):
            problem = "the engine dropped the tasks; is its scheduler still running?"
        else:
            problem = f"the engine failed ({name}: {text.partition(chr(10))[0]})"
        raise TaskError(problem) from error


@dataclass(frozen=True)
class _CheckedWork:
    """A wrapper of `work` that returns (result, error), so that only engine errors are raised.

    It fails if the worker has another version of this package.
    """

    work: Callable[[Any], Any]
    version: str

    def __call__(self, task: Any) -> tuple[Any, Exception | None]:
        if (mine := _version()) != self.version:
            return None, TaskError(
                f"a worker has rappor-telemetry {mine}, the tasks are of {self.version}: {_SAME}"
            )
        try:
            return self.work(task), None
        except ModuleNotFoundError as error:
            return None, TaskError(f"a worker has no module {error.name!r}: {_SAME}")
        except Exception as error:
            error.add_note(f"On a worker: {traceback.format_exc()}")
            return None, error


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
    ignore = (signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends them
    return ProcessPoolExecutor(number, context, signal.signal, ignore)


def _terminate(executor: Any) -> None:
    """End the processes of a pool at once; otherwise Python waits for the tasks that run."""
    processes = list((executor._processes or {}).values())
    executor.shutdown(wait=False, cancel_futures=True)  # before they end, as a broken pool fails
    for process in processes:
        process.terminate()


def _dask_client(address: str) -> Any:
    """Return a Dask client, connected on a thread, as Dask's timeout ignores silent schedulers."""
    open_client, future = import_module("distributed").Client, Future[Any]()

    def attempt() -> None:
        try:
            future.set_result(open_client(address, timeout=CONNECT_SECONDS))
        except BaseException as error:
            future.set_exception(error)

    Thread(target=attempt, daemon=True).start()
    try:
        return future.result(CONNECT_SECONDS)
    except (TimeoutError, OSError) as error:
        raise _silent(f"Dask scheduler at {address}") from error


def _ping_spark(master: str) -> None:
    """Ask a standalone master for a file that it does not have; Spark itself waits for a minute.

    Any answer will do, and so will the end of the connection, as from a master with passwords.
    """
    if (match := re.fullmatch(r"spark://([^,]+):(\d+)", master)) is None:
        return  # several masters, or another kind of cluster
    name = b"/jars/rappor"
    stream_request = struct.pack(">QBI", 13 + len(name), 6, len(name)) + name
    try:
        address = match[1].strip("[]"), int(match[2])
        with socket.create_connection(address, CONNECT_SECONDS) as connection:
            connection.sendall(stream_request)
            connection.recv(1)
    except ConnectionResetError:
        return
    except OSError as error:
        raise _silent(f"Spark master at {master}") from error


def _silent(scheduler: str) -> TaskError:
    return TaskError(f"no {scheduler} answers within {CONNECT_SECONDS:.0f} s")


class _SparkExecutor(ThreadPoolExecutor):
    """An executor that runs each task as a Spark job, and waits for it on a thread."""

    def __init__(self, master: str) -> None:
        pyspark = import_module("pyspark")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else the first Python in PATH
        configuration = pyspark.SparkConf().setAppName("rappor")
        if master:
            configuration.setMaster(master)
        configuration.setIfMissing("spark.master", "local[*]")
        self._is_cluster = not configuration.get("spark.master").startswith("local")
        _ping_spark(configuration.get("spark.master"))
        self._context = pyspark.SparkContext.getOrCreate(configuration)
        super().__init__(_SPARK_THREADS)

    def num_workers(self) -> int:
        """Return how many tasks Spark runs at once; 0 if it has no executor."""
        if self._is_cluster and len(self._context._jsc.sc().statusTracker().getExecutorInfos()) < 2:
            return 0  # the driver alone
        return int(self._context._jsc.sc().defaultParallelism())

    def submit(self, work: Any, /, task: Any) -> Any:  # type: ignore[override]
        """Submit a task; its job starts when a thread is free."""
        return super().submit(self._run, work, task)

    def _run(self, work: Callable[[Any], Any], task: Any) -> Any:
        return self._context.parallelize([task], 1).map(work).collect()[0]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Stop Spark; running jobs are canceled unless `wait` is true."""
        if not wait:
            self._context.cancelAllJobs()
        super().shutdown(wait, cancel_futures=cancel_futures)
        self._context.stop()
