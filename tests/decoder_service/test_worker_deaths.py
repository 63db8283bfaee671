"""Workers as processes: cancelled, limited, stopped and killed; each result is there once."""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import psutil
import pytest
from sqlalchemy import func, select

from decoder_service.shell.models import LIVE, JobRow, ResultRow
from decoder_service.shell.server import work
from decoder_service.worker import execution
from decoder_service.worker.execution import Keyed, Proceed, Task, TaskFinished
from tests.decoder_service.bench import on_bench
from tests.decoder_service.support import (
    SLOW,
    Running,
    await_busy,
    await_state,
    decode_spec,
    running,
    submit,
    workers,
)
from tests.decoder_service.worker_nursery import Nursery
from tests.waiting import until

KILLS = 50  # on each of the two databases, or more
SECONDS = float(os.environ.get("RAPPOR_TEST_KILL_SECONDS", "0"))  # of kills on each, or more
LEASE = 2.0
WORKERS, SLOTS = 2, 2
ATTEMPTS = 20  # the most that settings allow
SPARED = 12  # attempts after which a job is let end


def kill_workers(
    url: str, folder: Path, kills: int, seconds: float = 0.0, live: int = 8
) -> tuple[int, int]:
    """Kill workers with jobs running, again and again: each job is done, each result once.

    A worker dies at a random moment within twice what a job takes, so that half of the jobs get
    done; one that used up `SPARED` attempts ends before the next kill. How many died and were done.
    """
    rng = random.Random(9)
    limits = {"job_attempts": ATTEMPTS, "lease_seconds": LEASE, "tick_seconds": 0}
    own = {"lease_seconds": LEASE, "job_slots": SLOTS, "work_folder": str(folder)}
    with (
        running(url, **limits) as served,
        served.client("ana") as ana,
        Nursery(url, **own) as nursery,
    ):
        spec = decode_spec(ana, candidates={"numbers": [0, 3000]})
        ids: list[str] = []

        def top_up() -> None:
            for _ in range(live - len(live_jobs(ana))):
                level = {"alpha": round(0.01 + 0.0001 * len(ids), 4)}
                ids.append(submit(ana, spec | {"options": level}))

        count = WORKERS if served.service.database.is_postgresql else 1  # SQLite takes one
        alive = [nursery.start() for _ in range(count)]
        top_up()
        lasted = median(seconds_of(await_state(ana, job, seconds=300)) for job in ids)
        made, end = 0, time.monotonic() + seconds
        while made < kills or time.monotonic() < end:
            top_up()
            _spare(ana)
            victim = await_busy(alive)
            time.sleep(rng.uniform(0, 2 * lasted))
            alive.remove(victim)
            kill(victim)
            alive.append(nursery.start())
            made += 1
        ended = [await_state(ana, job, seconds=300) for job in ids]
        nursery.stop()
        assert {one["state"] for one in ended} == {"done"}, ended
        assert len({one["result_id"] for one in ended}) == len(ids)
        _nothing_is_left(served, folder, nursery, len(ids))
        return made, len(ids)


def kill(worker: psutil.Process) -> None:
    family = [worker, *worker.children(recursive=True)]
    worker.kill()
    until(lambda: not any(map(_runs, family)), 60, every=0.02, shown=lambda: family)


def _runs(process: psutil.Process) -> bool:
    """Whether a process is there and more than an entry that its parent has not read yet."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _nothing_is_left(served: Running, folder: Path, nursery: Nursery, done: int) -> None:
    """One result a job, no job held, and no folder of a dead worker once another has started."""
    with served.service.database.reading() as db:
        stored = db.execute(select(func.count()).select_from(ResultRow)).scalar_one()
        held = select(func.count()).where(JobRow.token.is_not(None))
        assert (stored, db.execute(held).scalar_one()) == (done, 0)
    nursery.start()

    def left() -> list[Path]:
        return list(folder.glob("rappor-job-*"))

    until(lambda: not left(), 120, every=0.1, shown=left)


def _spare(client: Any) -> None:
    """Wait for jobs that were killed so often that a few more would use up their attempts."""
    for one in live_jobs(client):
        if one["attempt"] >= SPARED:
            await_state(client, one["id"], seconds=300)


def live_jobs(client: Any) -> list[dict[str, Any]]:
    rows = client.get("/v1/jobs?limit=1000").json()["jobs"]
    return [row for row in rows if row["state"] in LIVE]


def seconds_of(job: dict[str, Any]) -> float:
    started, ended = (datetime.fromisoformat(job[name]) for name in ("started", "ended"))
    return (ended - started).total_seconds()


@pytest.mark.long
def test_workers_killed_at_many_points(database_url: str, tmp_path: Path) -> None:
    """50 points on each database, 8 jobs at every one; more in RAPPOR_TEST_KILL_SECONDS."""
    before = time.monotonic()
    kills, done = kill_workers(database_url, tmp_path, KILLS, SECONDS)
    print(f"{kills} kills, {done} jobs done, {time.monotonic() - before:.0f} s")


def test_the_next_worker_does_the_job_of_a_killed_one(tmp_path, monkeypatch) -> None:
    """Both are processes on SQLite; they fork their jobs themselves, which needs no imports."""

    def execute(task: Task, _: Any, proceed: Proceed) -> TaskFinished:
        assert proceed(Keyed("a" * 64, "b" * 64, "strings"))
        if not (tmp_path / "go").exists():
            (tmp_path / "held").touch()
            time.sleep(60)
        for name in ("out", "aggregates"):
            (task.folder / name).mkdir()
        return TaskFinished("string", "c" * 32, None, None, {})

    forking = multiprocessing.get_context("fork")
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: forking)
    monkeypatch.setattr(execution, "execute", execute)
    with on_bench(tmp_path, job_slots=1, lease_seconds=LEASE) as bench:
        job = bench.submit({"numbers": [0, 50]})
        bench.service.database.close()  # no connection is open while it forks
        killed, following = (forking.Process(target=work, args=(bench.settings,)) for _ in range(2))
        killed.start()
        try:
            until((tmp_path / "held").exists, 60, every=0.05)
            (process,) = psutil.Process(killed.pid).children()
        finally:
            killed.kill()
            killed.join()
        process.wait(10)  # it ends with its worker
        assert bench.get(job).state == "running"
        (tmp_path / "go").touch()
        following.start()
        try:
            until(lambda: bench.get(job).state not in LIVE, 60, every=0.05)
        finally:
            following.terminate()
            following.join()
        found = bench.get(job)
    assert (found.state, found.attempt, following.exitcode) == ("done", 2, 0), found.reason


def test_a_worker_whose_web_died_while_it_started_ends() -> None:
    """It would work on, alongside the worker of the next web."""
    code = "from decoder_service.worker.process_limits import die_with_parent as die; die({})"
    for parent, ended in (("__import__('os').getppid()", False), (str(2**22 + 1), True)):
        done = subprocess.run([sys.executable, "-c", code.format(parent)], check=False, timeout=60)
        assert (done.returncode != 0) == ended


def processes_of(worker: Any) -> list[psutil.Process]:
    return psutil.Process(worker.pid).children(recursive=True)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/decoder.sqlite"


@pytest.mark.long
def test_cancel_frees_the_processor_within_a_second(url: str, tmp_path: Path) -> None:
    with running(url) as served, workers(url, tmp_path) as started, served.client("ana") as ana:
        taken: list[float] = []  # the best of three: other work on the machine is not the worker's
        while len(taken) < 3 and min(taken, default=1.0) >= 1.0:
            taken.append(seconds_until_cancelled(ana, started[0]))
    assert min(taken) < 1.0


def seconds_until_cancelled(ana: httpx.Client, worker: Any) -> float:
    """For a running job whose process is gone then."""
    job = submit(ana, decode_spec(ana, candidates=SLOW))
    early = ("", "starting", "reading counts")
    until(lambda: ana.get(f"/v1/jobs/{job}").json()["stage"] not in early, 60, every=0.05)
    busy = [one for one in processes_of(worker) if one.memory_info().rss > 50 << 20]
    before = time.monotonic()
    assert ana.post(f"/v1/jobs/{job}/cancel").json()["state"] == "cancelling"
    found = await_state(ana, job, "cancelled", seconds=10)
    taken = time.monotonic() - before
    assert found["reason"] == "cancelled while it ran"
    left = [one.pid for one in processes_of(worker)]
    assert len([one for one in busy if one.pid in left]) < len(busy)
    return taken


@pytest.mark.long
def test_limits_end_jobs_with_a_reason_in_words(url: str, tmp_path: Path) -> None:
    memory = {"JOB_MEMORY_BYTES": 100 << 20}
    with running(url) as served, served.client("ana") as ana:
        with workers(url, tmp_path, **memory):
            failed = await_state(ana, submit(ana, decode_spec(ana, candidates=SLOW)))
        assert failed["state"] == "failed"
        assert "memory" in failed["reason"]
        with workers(url, tmp_path, JOB_SECONDS=2):
            late = await_state(ana, submit(ana, decode_spec(ana, candidates=SLOW)))
        assert late["state"] == "failed"
        assert late["reason"] == "it took longer than 2 seconds, the limit for jobs"


@pytest.mark.long
def test_a_stopped_worker_gives_its_jobs_back(url: str, tmp_path: Path) -> None:
    with running(url) as served, served.client("ana") as ana:
        with workers(url, tmp_path):
            job = submit(ana, decode_spec(ana, candidates=SLOW))
            await_state(ana, job, "running")
        found = ana.get(f"/v1/jobs/{job}").json()
        assert (found["state"], found["attempt"]) == ("queued", 0)
        assert ana.get("/readyz").status_code == 503
        assert ana.post(f"/v1/jobs/{job}/cancel").json()["state"] == "cancelled"


@pytest.mark.long
def test_signals_to_all_processes_requeue_jobs(url: str, tmp_path: Path) -> None:
    """systemd stops all processes of a service at once: no job fails of it."""
    with running(url) as served, served.client("ana") as ana:
        with workers(url, tmp_path) as (worker,):
            job = submit(ana, decode_spec(ana, candidates=SLOW))
            await_state(ana, job, "running")
            await_busy([psutil.Process(worker.pid)])
            for one in processes_of(worker):
                one.send_signal(signal.SIGTERM)
            time.sleep(0.6)  # the worker looks after its jobs before it hears of it
        found = ana.get(f"/v1/jobs/{job}").json()
        assert (found["state"], found["attempt"]) == ("queued", 0), found
