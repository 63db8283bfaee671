"""Tasks in processes of their own, which have imported nothing but what the task needs.

`multiprocessing` would import the program that audits in each of them, with numpy and scipy: more
work than the task, and done before the process is controlled.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from privacy_audit.errors import AuditedClientError, AuditError
from rappor_core.own_packages import prefer_own_packages

_Asked = TypeVar("_Asked")
_Told = TypeVar("_Told")


@contextmanager
def client_errors() -> Iterator[None]:
    """Turn every exception of the client within the block into an AuditedClientError, which can
    leave a process.

    Its message has the exception, and the line of the innermost call.
    """
    try:
        yield
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error}"[:300]
        place = f"{Path(where.filename).name}, line {where.lineno}"
        raise AuditedClientError(f"{text} ({place})") from error


def each_alone(do: Callable[[_Asked], _Told], tasks: list[_Asked], processes: int) -> list[_Told]:
    """Run each task in a fresh process, several at a time; results are in the order of the
    tasks.

    do: a function of a module.  processes: at least one works.  Raises what `do` raised, and
    AuditError where a process ended without an answer.
    """
    with ThreadPoolExecutor(max(processes, 1)) as threads:
        return list(threads.map(lambda task: _alone(do, task), tasks))


def _alone(do: Callable[[_Asked], _Told], task: _Asked) -> _Told:
    done = subprocess.run(
        [sys.executable, "-m", __name__], input=pickle.dumps((do, task)), capture_output=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}, check=False,
    )  # fmt: skip
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-300:]
        raise AuditError(f"a process of the audit ended with code {done.returncode}: {said}")
    told, error = pickle.loads(done.stdout)
    if error is not None:
        raise error
    result: _Told = told
    return result


def main() -> None:
    """The entry point of a fresh process: read a function and its argument, call it, write its
    result or its error."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a client prints is no answer
    prefer_own_packages()
    do, task = pickle.load(sys.stdin.buffer)
    try:
        told: tuple[object, AuditError | None] = do(task), None
    except AuditError as error:
        told = None, error
    answer.write(pickle.dumps(told))
    answer.close()


if __name__ == "__main__":
    main()
