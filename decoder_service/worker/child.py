"""The process of one job: limits, progress through a pipe, an end in words."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from multiprocessing.connection import Connection

from decoder.sources.collector_client import KEY_VARIABLE
from decoder_service.worker.execution import Failed, JobProgress, Keyed, Task, TaskFinished, execute
from decoder_service.worker.process_limits import die_with_parent, end_with_pipe, limit_resources
from rappor_core.errors import RapporError

_TELL_SECONDS = 0.2  # between two messages of one stage


def run(task: Task, pipe: Connection, life: Connection) -> None:
    """The main function of a job's process: do the job and send its outcome.

    pipe: messages of `decoder_service.worker.execution`, and the answer to Keyed.
    life: its other end is held by the worker; this process ends with it.
    """
    die_with_parent()
    end_with_pipe(life)
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
    ):  # of a terminal, or of systemd to all at once
        signal.signal(number, signal.SIG_IGN)  # the worker decides
    os.environ.pop(KEY_VARIABLE, None)
    if task.collector_key:
        os.environ[KEY_VARIABLE] = task.collector_key
    limit_resources(task.memory, task.file_size)
    with suppress(BrokenPipeError):  # the worker is gone, and this process follows it
        pipe.send(_outcome(task, pipe))


def _outcome(task: Task, pipe: Connection) -> TaskFinished | Failed | None:
    def proceed(keyed: Keyed) -> bool:
        pipe.send(keyed)
        return bool(pipe.recv())

    try:
        return execute(task, _ProgressSender(pipe), proceed)
    except MemoryError:
        return Failed(
            f"it needed more memory than the {task.memory / (1 << 30):.2g} GiB that a job may "
            "take; use a shorter list, coarser cells or full_fit = false"
        )
    except RapporError as error:
        return Failed(_without_folders(str(error), task))
    except OSError as error:
        return Failed(f"a file could not be read or written: {error.strerror or error}")
    except Exception as error:
        return Failed(f"the decoder failed ({type(error).__name__}); this is a defect")


def _without_folders(text: str, task: Task) -> str:
    """A reason that names files, but not where they are on this machine."""
    given = {path.parent for paths in task.counts if paths for path in paths}
    for folder in (task.folder, *given):
        text = text.replace(f"{folder}{os.sep}", "")
    return text


class _ProgressSender:
    """Sends progress, not more often than can be read."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._stage = ""
        self._sent = 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if stage == self._stage and done < total and now - self._sent < _TELL_SECONDS:
            return
        self._stage, self._sent = stage, now
        self._pipe.send(JobProgress(stage, done, total))
