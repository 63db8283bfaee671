"""Workers killed at any point, on both databases: each result is there once, nothing is stuck."""

import multiprocessing
import os
import random
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pytest
from sqlalchemy import func, select

from decoder_service.jobs.specs import JobSpec
from decoder_service.people.access import COMMAND_LINE
from decoder_service.people.permissions import Role
from decoder_service.shell.models import LIVE, JobRow, ResultRow
from decoder_service.shell.server import work
from decoder_service.shell.service import make_service
from decoder_service.worker import execution
from decoder_service.worker.execution import Keyed, Proceed, Task, TaskFinished
from rappor_server.schema import prepare
from tests.decoder_service.support import (
    STRINGS,
    Running,
    await_busy,
    await_state,
    decode_spec,
    running,
    settings_of,
    submit,
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

    There are always so many live jobs. A worker is killed at a random moment after it took one,
    within twice what a job takes on this machine: the points lie in all stages of a job, and in
    the storing of its result, and half of the jobs get done. The oldest is taken first again and
    again: one that used up `SPARED` of its attempts, as where the machine got slower since, ends
    before the next kill. Returns how many workers were killed and how many jobs were done.

    kills, seconds: it ends after so many and after so long.
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
    """kill -9. The jobs of a dead worker die with it."""
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
    """The jobs that are not over."""
    rows = client.get("/v1/jobs?limit=1000").json()["jobs"]
    return [row for row in rows if row["state"] in LIVE]


def seconds_of(job: dict[str, Any]) -> float:
    """How long a job ran."""
    started, ended = (datetime.fromisoformat(job[name]) for name in ("started", "ended"))
    return (ended - started).total_seconds()


@pytest.mark.long
def test_workers_killed_at_many_points(database_url: str, tmp_path: Path) -> None:
    """50 points on each database, 8 jobs at every one; more in RAPPOR_TEST_KILL_SECONDS."""
    before = time.monotonic()
    kills, done = kill_workers(database_url, tmp_path, KILLS, SECONDS)
    print(f"{kills} kills, {done} jobs done, {time.monotonic() - before:.0f} s")


def test_the_next_worker_does_the_job_of_a_killed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are processes on SQLite; they fork their jobs themselves, which needs no imports."""

    def execute(task: Task, _: Any, proceed: Proceed) -> TaskFinished:
        assert proceed(Keyed("a" * 64, "b" * 64, "strings"))
        if not (tmp_path / "go").exists():
            (tmp_path / "held").touch()
            time.sleep(60)
        for name in ("out", "aggregates"):
            (task.folder / name).mkdir()
        return TaskFinished("string", "c" * 32, None, None, {})

    settings = settings_of(f"sqlite:///{tmp_path}/d.sqlite", job_slots=1, lease_seconds=0.5,
                           poll_seconds=0.05, work_folder=tmp_path)  # fmt: skip
    service = make_service(settings)
    service.database.close()  # after each transaction: no connection is open while it forks
    prepare(service.database)
    key = service.access.create_key(COMMAND_LINE, "ana", Role.ANALYST).text
    ana, forking = service.access.person_of_key(key), multiprocessing.get_context("fork")
    source = {"aggregates": [service.aggregates.upload(ana, STRINGS).sha256]}
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: forking)
    monkeypatch.setattr(execution, "execute", execute)
    spec = {"operation": "decode", "source": source, "candidates": {"numbers": [0, 50]}}
    job = service.jobs.submit(ana, JobSpec.model_validate(spec)).id
    killed, following = (forking.Process(target=work, args=(settings,)) for _ in range(2))
    killed.start()
    try:
        until((tmp_path / "held").exists, 60, every=0.05)
        (process,) = psutil.Process(killed.pid).children()
    finally:
        killed.kill()
        killed.join()
    process.wait(10)  # it ends with its worker
    assert service.jobs.get(ana, job).state == "running"
    (tmp_path / "go").touch()
    following.start()
    try:
        until(lambda: service.jobs.get(ana, job).state not in LIVE, 60, every=0.05)
    finally:
        following.terminate()
        following.join()
    found = service.jobs.get(ana, job)
    assert (found.state, found.attempt, following.exitcode) == ("done", 2, 0), found.reason
    assert list(tmp_path.glob("rappor-job-*")) == []


def test_a_worker_whose_web_died_while_it_started_ends() -> None:
    """It would work on, alongside the worker of the next web."""
    code = "from decoder_service.worker.process_limits import die_with_parent as die; die({})"
    for parent, ended in (("__import__('os').getppid()", False), (str(2**22 + 1), True)):
        done = subprocess.run([sys.executable, "-c", code.format(parent)], check=False, timeout=60)
        assert (done.returncode != 0) == ended
