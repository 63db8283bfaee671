"""The worker, which takes jobs, watches their processes, and ends them in the database.

It is one loop on one thread. Each change of a job names the worker's hold on it, so that a late
worker does no harm: after a pause longer than a lease, another worker has the job."""

import multiprocessing
import os
import socket
import tempfile
import time
from collections.abc import Callable
from multiprocessing import connection as pipes
from pathlib import Path

from sqlalchemy import delete
from sqlalchemy.orm import Session

from decoder_service.jobs import rules as claims
from decoder_service.jobs.rules import Hold
from decoder_service.results.rules import result_of_key
from decoder_service.shell.database import ServiceDatabase, utc_now
from decoder_service.shell.models import HELD, JobState, WorkerRow
from decoder_service.shell.settings import ServiceSettings
from decoder_service.worker import running
from decoder_service.worker.execution import TaskFinished
from decoder_service.worker.process_limits import PARENT_VARIABLE
from decoder_service.worker.running import (
    Running,
    delete_left_folders,
    give,
    make_folder,
    make_task,
    store_result,
)
from rappor_server.errors import ConflictError, StorageError
from rappor_server.logs import Log

_CHORES_SECONDS = 1.0
_STRIKES = 5  # Database failures with one job, after which the job ends


class _LostError(StorageError):
    """An error that rolls back a transaction, because the worker no longer holds the job."""


class Worker:
    """A worker, which runs jobs until it is asked to stop."""

    def __init__(self, database: ServiceDatabase, settings: ServiceSettings, log: Log) -> None:
        self._database = database
        self._settings = settings
        self._log = log
        self._row = WorkerRow(
            id=os.urandom(16).hex(),
            host=socket.gethostname()[:200],
            pid=os.getpid(),
            slots=settings.job_slots,
            started=0.0,
            seen=0.0,
        )
        self._work = Path(settings.work_folder or tempfile.gettempdir())
        self._jobs: list[Running] = []
        self._next_chores = 0.0
        os.environ[PARENT_VARIABLE] = str(os.getpid())
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["decoder_service.worker.forkserver_setup"])

    def run(self, stopped: Callable[[], bool]) -> None:
        """Run jobs until `stopped` returns true; then queue the running jobs again."""
        delete_left_folders(self._work)
        self._log.info("worker_started", slots=self._settings.job_slots)
        try:
            self._guarded(self._chores)
            running.prepare(self._context)
            while not stopped():
                self._guarded(self._step)
        finally:
            self._guarded(self._give_back)
            self._log.info("worker_stopped")

    def _guarded(self, step: Callable[[], None]) -> None:
        """Run a step; if the database fails, log it and stop the jobs whose leases are over."""
        try:
            step()
        except StorageError as error:
            self._log.warning("worker_database", reason=str(error))
            for job in list(self._jobs):  # Other workers may have those whose leases are over
                if time.monotonic() - job.renewed > self._settings.lease_seconds:
                    self._close(job)
            time.sleep(self._settings.poll_seconds)

    def _step(self) -> None:
        """Wait a moment for messages, then check every job, and claim new ones."""
        ready = [job for job in self._jobs if not job.strikes]  # Others wait until their pause ends
        waited = [end for job in ready for end in (job.pipe, job.process.sentinel)]
        if waited:
            pipes.wait(waited, timeout=self._settings.poll_seconds)
        else:
            time.sleep(self._settings.poll_seconds)
        self._chores()
        self._follow()
        while len(self._jobs) < self._settings.job_slots and self._take():
            pass

    def _chores(self) -> None:
        now = time.monotonic()
        if now < self._next_chores:
            return
        self._next_chores = now + min(_CHORES_SECONDS, self._settings.lease_seconds / 4)
        with self._database.writing() as db:
            claims.see_worker(db, self._row, 10 * self._settings.lease_seconds)
            for job in self._jobs:  # Before take_over: this worker is alive even if a lease is over
                if claims.renew(db, job.hold, self._settings.lease_seconds):
                    job.renewed = now
            claims.take_over(db)

    def _follow(self) -> None:
        """Store progress, end finished jobs, and stop jobs that are cancelled, too slow or lost."""
        if not self._jobs:
            return
        with self._database.reading() as db:
            states = claims.states_of(db, [job.hold for job in self._jobs])
        for job in list(self._jobs):
            try:
                self._look_after(job, states.get(job.hold))
            except StorageError as error:  # Concerns only this job
                self._log.warning("job_not_stored", job=job.job.id, reason=str(error))
                job.strikes += 1  # Tried again after a pause
                job.not_before = time.monotonic() + job.strikes * self._settings.poll_seconds
                if job.strikes >= _STRIKES and job in self._jobs:
                    self._end(job.hold, JobState.FAILED, f"it could not be stored: {error}")
                    self._close(job)

    def _look_after(self, job: Running, state: JobState | None) -> None:
        job.listen()
        if state is JobState.CANCELLING:
            self._close(job)
            self._end(job.hold, JobState.CANCELLED, "cancelled while it ran")
        elif state is not JobState.RUNNING:
            self._close(job)  # Another worker has the job
        elif time.monotonic() < job.not_before:
            return
        elif job.is_over:
            job.listen()  # Receive what was sent before the process ended
            if why := job.lost:
                self._close(job)
                self._try_again(job.hold, why)
            else:
                self._complete(job)
        elif time.monotonic() - job.started > self._settings.job_seconds:
            self._close(job)
            most = f"{self._settings.job_seconds:g} seconds"
            self._end(job.hold, JobState.FAILED, f"it took longer than {most}, the limit for jobs")
        else:
            self._hear(job)

    def _hear(self, job: Running) -> None:
        """Store progress, and answer whether the result must still be computed."""
        keyed = None if job.answered else job.keyed
        if job.progress is None and keyed is None:
            return
        is_stored = False
        with self._database.writing() as db:
            if job.progress is not None:
                claims.save_progress(db, job.hold, *job.progress)
            if keyed is not None:
                job.hold.change(db, *HELD, metric=keyed.metric)  # Known once the files are read
                is_stored = result_of_key(db, keyed.key) is not None
        job.progress = None
        if keyed is not None:
            job.proceed(not is_stored)

    def _complete(self, job: Running) -> None:
        """End a job whose process is over, and store its result in the same transaction."""
        outcome = job.outcome
        try:
            if isinstance(outcome, str):
                self._end(job.hold, JobState.FAILED, outcome)
            else:
                self._finish(job, outcome)
        except _LostError:
            self._log.warning("job_lost", job=job.job.id)
        except StorageError:
            raise  # The job is tried again
        except Exception as error:  # A single result must not stop the worker and its other jobs
            self._end(job.hold, JobState.FAILED, running.why(error, self._log))
        self._close(job)

    def _finish(self, job: Running, outcome: TaskFinished | None) -> None:
        with self._database.writing() as db:  # A lease that is long enough to store files
            claims.renew(db, job.hold, self._settings.lease_seconds)
        try:
            with self._database.writing() as db:
                state, reason, result = self._stored(db, job, outcome)
                if not claims.end(db, job.hold, state, reason, result):
                    raise _LostError("the worker no longer holds the job")
        except ConflictError:  # Another job with the same key was faster
            with self._database.writing() as db:
                state, reason, result = self._stored(db, job, None)
                claims.end(db, job.hold, state, reason, result)

    def _stored(
        self, db: Session, job: Running, outcome: TaskFinished | None
    ) -> tuple[JobState, str, str | None]:
        """Store a job's result, if any; return the job's final state, its reason and result id."""
        keyed = job.keyed
        if keyed is None:
            return JobState.FAILED, "its process ended too early; this is a defect", None
        stored = result_of_key(db, keyed.key)
        if stored is not None:
            result_id = give(db, job.job, stored.id, self._settings)
            return JobState.DONE, "computed before: this is the stored result", result_id
        if outcome is None:
            return JobState.FAILED, "the stored result was deleted meanwhile; start it again", None
        out = job.folder.path / "out"
        size = sum(path.stat().st_size for path in out.iterdir())
        if size > self._settings.max_result_bytes:
            most = self._settings.max_result_bytes
            return JobState.FAILED, f"the result has {size:,} bytes, above {most:,}", None
        at = utc_now().timestamp()
        result = store_result(db, job.job, job.folder.path, keyed, outcome, at)
        return JobState.DONE, "", give(db, job.job, result, self._settings)

    def _end(self, hold: Hold, state: JobState, reason: str) -> None:
        with self._database.writing() as db:
            if not claims.end(db, hold, state, reason):
                claims.end(db, hold, JobState.CANCELLED, "cancelled while it ran")

    def _try_again(self, hold: Hold, why: str) -> None:
        """Requeue a job whose process was lost, unless its attempts are used up."""
        self._log.warning("job_process_lost", job=hold.job_id, reason=why)
        with self._database.writing() as db:
            claims.free(db, hold.where(), why)
        running.prepare(self._context)  # because the process that forks jobs may have died

    def _take(self) -> bool:
        """Claim a job and start its process; return False if there is none."""
        with self._database.writing() as db:
            lease = self._settings.lease_seconds
            hold = claims.claim(db, self._row.id, os.urandom(16).hex(), lease)
        if hold is None:
            return False
        try:
            self._start(hold)
        except running.ForkingError as error:
            self._try_again(hold, str(error))
            return False  # No job at the moment
        except StorageError:
            raise
        except Exception as error:
            self._end(hold, JobState.FAILED, running.why(error, self._log))
        return True

    def _start(self, hold: Hold) -> None:
        with self._database.reading() as db:
            job = claims.load_held(db, hold)
            if job is None:
                return
            folder = make_folder(self._work, job.id)
            try:
                task = make_task(db, job, folder.path, self._settings)
                self._jobs.append(running.start(self._context, job, hold, folder, task))
            except BaseException:
                folder.delete()
                raise

    def _close(self, job: Running) -> None:
        self._jobs.remove(job)
        job.close()

    def _give_back(self) -> None:
        for job in list(self._jobs):
            self._close(job)
            with self._database.writing() as db:
                if not claims.give_back(db, job.hold):
                    claims.end(db, job.hold, JobState.CANCELLED, "cancelled while it ran")
        with self._database.writing() as db:
            db.execute(delete(WorkerRow).where(WorkerRow.id == self._row.id))
