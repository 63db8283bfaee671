"""The process that forks the jobs of a worker dies: its jobs are queued again, not failed."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import update

from decoder_service.jobs.rules import Hold, live_workers
from decoder_service.shell.models import LIVE, JobRow, WorkerRow
from decoder_service.worker import running
from decoder_service.worker.worker import Worker
from rappor_server.logs import make_log
from tests.decoder_service.bench import Bench, on_bench
from tests.decoder_service.support import SLOW
from tests.waiting import until

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads states of processes"),
]


def work(bench: Bench, job: JobRow, meanwhile: Callable[[], object]) -> JobRow:
    """Work in this process until the job is over; calls `meanwhile` between the steps."""
    deadline = time.monotonic() + 240

    def over() -> bool:
        meanwhile()
        return bench.get(job).state not in LIVE or time.monotonic() > deadline

    Worker(bench.service.database, bench.settings, make_log("error")).run(over)
    return bench.get(job)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with on_bench(tmp_path, lease_seconds=120) as made:  # a start takes long on a busy machine
        yield made


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
    found = work(bench, job, lambda: todo and todo.pop()())
    assert (found.state, found.reason) == ("done", "")
    assert found.attempt == 2


def kill(processes: list[psutil.Process]) -> None:
    """SIGKILL; they may have ended since they were listed."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.mark.parametrize("victim", ["the forking process", "the job"])
def test_running_jobs_that_are_killed_are_queued_again(bench: Bench, victim: str) -> None:
    job, kills = bench.submit(SLOW), [1]

    def kill_once_it_runs() -> None:
        if kills and bench.get(job).stage not in ("", "starting"):
            kills.pop()
            forking = forking_process()
            kill(forking.children() if victim == "the job" else [forking])
        elif not kills and bench.get(job).attempt == 2:
            bench.service.jobs.cancel(bench.ana, job.id)

    found = work(bench, job, kill_once_it_runs)
    assert not kills
    assert (found.state, found.attempt) == ("cancelled", 2)


def test_a_job_that_is_killed_always_is_abandoned(bench: Bench) -> None:
    found = work(bench, bench.submit(SLOW), lambda: kill(forking_process().children()))
    assert (found.state, found.attempt) == ("abandoned", found.max_attempts)
    assert "killed" in found.reason
    assert "all attempts are used up" in found.reason


def test_no_job_is_taken_before_it_forks(bench: Bench) -> None:
    """Its imports take longer than a lease on a busy machine: no attempt is counted for them."""
    job, forking = bench.submit({"numbers": [0, 50]}), forking_process()
    forking.suspend()
    seen: list[JobRow] = []

    def lives() -> list[WorkerRow]:
        with bench.service.database.reading() as db:
            return live_workers(db, 60)

    def look_then_go_on() -> None:
        until(lives, 60)
        time.sleep(1)  # it would have taken the job in that time
        seen.append(bench.get(job))
        forking.resume()

    thread = threading.Thread(target=look_then_go_on)
    thread.start()
    found = work(bench, job, lambda: None)
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
    found = work(bench, job, lambda: None)
    assert (found.state, found.attempt, starts) == ("done", 1, [job.id])
