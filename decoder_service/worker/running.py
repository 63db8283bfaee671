"""A running job in its worker: its process, pipes, folder, inputs and stored result."""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from decoder.errors import DecodeError
from decoder_service.jobs.rules import LISTS, Hold
from decoder_service.jobs.specs import CandidateSpec, JobSpec, ListSpec, canonical
from decoder_service.lists.rules import FILES, described, load_content, save_aggregate
from decoder_service.people.permissions import check_room
from decoder_service.results.rules import let_read, save_result
from decoder_service.shell.database import decoder_version
from decoder_service.shell.models import AggregateRow, JobRow, ListVersionRow, ResultRow
from decoder_service.shell.settings import ServiceSettings, secret_text
from decoder_service.worker.execution import JobProgress, Keyed, Task, TaskFinished, run
from rappor_core.errors import RapporError
from rappor_server.logs import Log

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext  # Not on Windows

_LOST = {  # The reasons by exit code
    255: "the process that starts jobs died each time",  # As multiprocessing reports it
    -9: "its process was killed each time, most likely by the system as memory ran out; use a "
    "shorter list, coarser cells or full_fit = false",
}
End = TaskFinished | str | None  # A result, the reason for a failure, or None
PREFIX = "rappor-job-"
_LOCK = "lock"


class ForkingError(Exception):
    """A fork server that died while it started a job."""


@dataclass(slots=True)
class Running:
    """A worker's record of a running job; times are by the worker's own clock."""

    job: JobRow
    hold: Hold
    folder: JobFolder
    process: BaseProcess
    pipe: Connection
    life: Connection
    started: float
    renewed: float
    progress: JobProgress | None = None  # Not yet stored
    keyed: Keyed | None = None
    answered: bool = False  # Whether `keyed` was answered
    strikes: int = 0
    not_before: float = 0.0
    end: list[End] = field(default_factory=list)  # The job's outcome, once sent

    def listen(self) -> None:
        """Receive all messages that have arrived."""
        with suppress(EOFError, OSError):
            while self.pipe.poll():
                message: Any = self.pipe.recv()
                if isinstance(message, tuple):
                    self.progress = message
                elif isinstance(message, Keyed):
                    self.keyed = message
                else:
                    self.end = [message]

    def proceed(self, needed: bool) -> None:
        """Inform the job's process whether it must compute the result."""
        self.answered = True
        with suppress(OSError):
            self.pipe.send(needed)

    @property
    def is_over(self) -> bool:
        """Return whether the process has sent its outcome or has ended."""
        return bool(self.end) or not self.process.is_alive()

    @property
    def lost(self) -> str:
        """Return why the process died, if the cause is probably outside the job, which can rerun.

        Returns "" if the process runs, has sent its outcome, or died for another reason."""
        if self.end or self.process.is_alive():
            return ""
        return _LOST.get(self.process.exitcode or 0, "")

    @property
    def outcome(self) -> End:
        """Return the outcome of a job that is over: its message, or the reason if it sent none."""
        if self.end:
            return self.end[0]
        code = self.process.exitcode
        return (
            f"its process ended without a result (exit code {code}), most likely as it could not "
            "get more memory; use a shorter list, coarser cells or full_fit = false"
        )

    def close(self) -> None:
        """End the process if it still runs, and delete the folder."""
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.join()
        self.process.close()
        self.pipe.close()
        self.life.close()
        self.folder.delete()


def prepare(context: ForkServerContext) -> None:
    """Wait until the process that forks jobs has started and imported the jobs' modules.

    That takes seconds, on a busy machine more than a lease, so no job may be held meanwhile. If the
    process dies, the start of a job will fail."""
    process = context.Process(target=int, name="ready")
    with suppress(EOFError, ConnectionError):
        process.start()
        process.join()
        process.close()


def start(
    context: ForkServerContext, job: JobRow, hold: Hold, folder: JobFolder, task: Task
) -> Running:
    """Start the process of a job. Raises ForkingError; the next start forks from a new process."""
    pipe, its_pipe = context.Pipe()
    its_life, life = context.Pipe(duplex=False)
    process = context.Process(target=run, args=(task, its_pipe, its_life), name=f"job-{job.id}")
    try:
        process.start()
    except (EOFError, ConnectionError) as error:
        pipe.close()
        life.close()
        raise ForkingError(_LOST[255]) from error
    finally:
        its_pipe.close()
        its_life.close()
    now = time.monotonic()
    return Running(job, hold, folder, process, pipe, life, now, now)


def why(error: Exception, log: Log) -> str:
    """Return why a job failed in its worker, without paths; log the error if it is a defect."""
    if isinstance(error, RapporError):
        return str(error)
    if isinstance(error, OSError):
        return f"a file could not be read or written: {error.strerror or 'unknown reason'}"
    log.crash(error)
    return f"the worker failed ({type(error).__name__}); this is a defect"


@dataclass(frozen=True, slots=True)
class JobFolder:
    """The folder of a job; `lock` is its locked file's descriptor, which child processes lack."""

    path: Path
    lock: int

    def delete(self) -> None:
        """Delete the folder, then release its lock."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.lock)


def make_folder(work: Path, job_id: str) -> JobFolder:
    """Make the folder of a job, readable only by its owner. Raises OSError on failure."""
    while True:  # Until a folder is locked before another worker deletes it as abandoned
        path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{job_id}-", dir=work))
        with suppress(FileNotFoundError):
            lock = lock_file(path / _LOCK)
            try:
                if os.path.samestat(os.fstat(lock), (path / _LOCK).stat()):
                    return JobFolder(path, lock)
            except BaseException:
                os.close(lock)
                raise
            os.close(lock)


def delete_left_folders(work: Path) -> None:
    """Delete the folders whose workers have ended."""
    for path in work.glob(f"{PREFIX}*"):
        with suppress(OSError):  # Belongs to another user, or was deleted meanwhile
            status = path.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid():
                JobFolder(path, lock_file(path / _LOCK, wait=False)).delete()


def lock_file(path: Path, *, wait: bool = True) -> int:
    """Open and lock a file until its descriptor is closed or the process ends.

    Returns the descriptor. Raises OSError if the file is locked and `wait` is false."""
    import fcntl

    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(file)
        raise
    return file


_GONE = "a list of this job was deleted; start it again with another"


def make_task(db: Session, job: JobRow, folder: Path, settings: ServiceSettings) -> Task:
    """Write a job's inputs to its folder and return its task.

    Raises DecodeError if a list or an aggregate was deleted."""
    spec, counts = JobSpec.model_validate_json(job.spec), list[tuple[Path, ...] | None]()
    for source in spec.sources:
        paths = []
        for sha in source.aggregates:
            stored = db.scalar(select(AggregateRow.content).where(AggregateRow.sha256 == sha))
            why = f"aggregate {sha} was deleted"
            paths.append(_written(folder / f"{sha}.json", stored, why))
        counts.append(None if source.collector else tuple(paths))
    lists = {}
    for name, kind in LISTS.items():
        choice: CandidateSpec | ListSpec | None = getattr(spec, name)
        if choice is not None and choice.list is not None:
            version = db.get(ListVersionRow, (choice.list, choice.version))
            sha = version.sha256 if version else ""
            path = folder / f"{name}.{FILES[kind].suffix}"
            lists[name] = _written(path, load_content(db, sha), _GONE), sha
    return Task(
        spec=spec,
        counts=tuple(counts),
        lists=lists,
        folder=folder,
        version=decoder_version(),
        collector=settings.collector,
        collector_key=secret_text(settings.collector_key),
        memory=settings.job_memory_bytes,
        file_size=settings.max_result_bytes,
    )


def _written(path: Path, content: bytes | None, why: str) -> Path:
    if content is None:
        raise DecodeError(why)
    path.write_bytes(content)
    return path


def store_result(
    db: Session, job: JobRow, folder: Path, keyed: Keyed, finished: TaskFinished, at: float
) -> str:
    """Insert a result with its files and aggregates, in the transaction that ends its job.

    Returns its id. Raises ConflictError if another job stored the result first."""
    files = {path.name: path.read_bytes() for path in sorted((folder / "out").iterdir())}
    version = decoder_version()
    same = select(ResultRow.id).where(ResultRow.input_digest == keyed.input_digest)
    row = ResultRow(
        id=os.urandom(8).hex(),
        key=keyed.key,
        input_digest=keyed.input_digest,
        supersedes=db.scalar(same.order_by(ResultRow.created.desc(), ResultRow.id).limit(1)),
        operation=job.operation,
        kind=finished.kind,
        metric=keyed.metric,
        params_id=finished.params_id,
        first_day=finished.first_day,
        last_day=finished.last_day,
        version=version,
        manifest=canonical(finished.manifest | {"version": version}),
        summary=json.dumps(finished.summary, allow_nan=False),
        released=False,
        created=at,
    )
    save_result(db, row, files)
    let_read(db, row.id, job.owner)
    for path in sorted((folder / "aggregates").iterdir()):
        save_aggregate(db, described(path.read_bytes(), at), job.owner)
    return row.id


def give(db: Session, job: JobRow, result_id: str, settings: ServiceSettings) -> str:
    """Make the owner of a job a holder of an existing result; return the result's id.

    Raises QuotaError if that exceeds the owner's limit."""
    let_read(db, result_id, job.owner)
    check_room(db, settings, job.owner, given=True)
    return result_id
