"""The process that forks the jobs of a worker dies: its jobs are queued again, not failed."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import update

from decoder_service.jobs.rules import Hold, live_workers
from decoder_service.jobs.specs import JobSpec
from decoder_service.people.access import COMMAND_LINE
from decoder_service.people.permissions import Person, Role
from decoder_service.shell.models import LIVE, JobRow, WorkerRow
from decoder_service.shell.service import DecoderService, make_service
from decoder_service.shell.settings import ServiceSettings
from decoder_service.worker import running
from decoder_service.worker.worker import Worker
from rappor_server.logs import make_log
from rappor_server.schema import prepare
from tests.decoder_service.support import SLOW, STRINGS
from tests.waiting import until

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads states of processes"),
]


@dataclass
class Bench:
    """A service, and a worker in this process."""

    service: DecoderService
    settings: ServiceSettings
    ana: Person

    def submit(self, candidates: dict[str, Any]) -> JobRow:
        sha = self.service.aggregates.upload(self.ana, STRINGS).sha256
        source = {"aggregates": [sha]}
        spec = {"operation": "decode", "source": source, "candidates": candidates}
        return self.service.jobs.submit(self.ana, JobSpec.model_validate(spec))

    def get(self, job: JobRow) -> JobRow:
        return self.service.jobs.get(self.ana, job.id)

    def workers(self) -> list[WorkerRow]:
        with self.service.database.reading() as db:
            return live_workers(db, 60)

    def work(self, job: JobRow, meanwhile: Callable[[], object]) -> JobRow:
        """Work until the job is over; calls `meanwhile` between the steps."""
        deadline = time.monotonic() + 240

        def over() -> bool:
            meanwhile()
            return self.get(job).state not in LIVE or time.monotonic() > deadline

        Worker(self.service.database, self.settings, make_log("error")).run(over)
        return self.get(job)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    settings = ServiceSettings(
        database=f"sqlite:///{tmp_path}/d.sqlite",
        work_folder=tmp_path,
        poll_seconds=0.05,
        lease_seconds=120,  # of a start that takes long, on a busy machine
    )
    service = make_service(settings)
    prepare(service.database)
    key = service.access.create_key(COMMAND_LINE, "ana", Role.ANALYST).text
    yield Bench(service, settings, service.access.person_of_key(key))
    service.close()
    assert list(tmp_path.glob("rappor-job-*")) == []


def forking_process() -> psutil.Process:
    forkserver.ensure_running()
    pid = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    return psutil.Process(pid)


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Makes it die in the next start: it has the request, and never answers."""
    victims: list[psutil.Process] = []
    read = forkserver.read_signed

    def kill() -> None:
        while victims:
            victims.pop().kill()

    def kill_then_read(pipe: int) -> Any:
        kill()
        return read(pipe)

    def suspend() -> None:
        victims.append(forking_process())
        victims[-1].suspend()

    monkeypatch.setattr(forkserver, "read_signed", kill_then_read)
    yield suspend
    kill()


def test_a_job_whose_start_fails_is_queued_again(bench: Bench, stop: Callable[[], None]) -> None:
    job = bench.submit({"numbers": [0, 50]})
    todo = [stop]
    found = bench.work(job, lambda: todo and todo.pop()())
    assert (found.state, found.reason) == ("done", "")
    assert found.attempt == 2


def test_running_jobs_are_queued_when_it_dies(bench: Bench) -> None:
    job = bench.submit(SLOW)
    kills = [1]

    def kill_once_it_runs() -> None:
        if bench.get(job).stage not in ("", "starting") and kills:
            kills.pop()
            forking_process().send_signal(signal.SIGKILL)
        elif not kills and bench.get(job).attempt == 2:
            bench.service.jobs.cancel(bench.ana, job.id)

    found = bench.work(job, kill_once_it_runs)
    assert not kills
    assert (found.state, found.attempt) == ("cancelled", 2)


def kill_now(process: psutil.Process) -> None:
    """SIGKILL; the process may have ended since it was listed."""
    with suppress(psutil.NoSuchProcess):
        process.kill()


def job_processes() -> list[psutil.Process]:
    """The processes of jobs, which the forking process has as children."""
    return forking_process().children()


def test_a_job_that_is_killed_is_queued_again(bench: Bench) -> None:
    job, kills = bench.submit(SLOW), [1]

    def kill_once_it_runs() -> None:
        if kills and bench.get(job).stage not in ("", "starting"):
            kills.pop()
            for process in job_processes():
                kill_now(process)
        elif not kills and bench.get(job).attempt == 2:
            bench.service.jobs.cancel(bench.ana, job.id)

    found = bench.work(job, kill_once_it_runs)
    assert not kills
    assert (found.state, found.attempt) == ("cancelled", 2)


def test_a_job_that_is_killed_always_is_abandoned(bench: Bench) -> None:
    job = bench.submit(SLOW)

    def kill() -> None:
        for process in job_processes():
            kill_now(process)

    found = bench.work(job, kill)
    assert (found.state, found.attempt) == ("abandoned", found.max_attempts)
    assert "killed" in found.reason
    assert "all attempts are used up" in found.reason


def test_no_job_is_taken_before_it_forks(bench: Bench) -> None:
    """The imports of the process that forks took longer than a lease on a busy machine: the job
    was taken over as a dead worker's, and counted a second attempt."""
    job, forking = bench.submit({"numbers": [0, 50]}), forking_process()
    forking.suspend()
    seen: list[JobRow] = []

    def look_then_go_on() -> None:
        until(bench.workers, 60)
        time.sleep(1)  # it would have taken the job in that time
        seen.append(bench.get(job))
        forking.resume()

    thread = threading.Thread(target=look_then_go_on)
    thread.start()
    found = bench.work(job, lambda: None)
    thread.join()
    assert [(one.state, one.attempt) for one in seen] == [("queued", 0)]
    assert (found.state, found.attempt) == ("done", 1)


def test_a_worker_takes_no_job_from_itself(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that takes longer than a lease, while nobody else takes the job over."""
    job, starts = bench.submit({"numbers": [0, 50]}), list[str]()
    start = running.start

    def late(context: Any, row: JobRow, hold: Hold, *given: Any) -> running.Running:
        starts.append(row.id)
        with bench.service.database.writing() as db:
            db.execute(update(JobRow).values(lease=1.0))
        return start(context, row, hold, *given)

    monkeypatch.setattr(running, "start", late)
    found = bench.work(job, lambda: None)
    assert (found.state, found.attempt, starts) == ("done", 1, [job.id])
