"""What fails does not stop the rest, and folders of jobs go with the worker that made them."""

import asyncio
import io
import os
import re
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import delete

from decoder_service.shell import app
from decoder_service.shell.models import AggregateRow, aggregate_readers
from decoder_service.worker import running, worker
from decoder_service.worker.running import PREFIX, delete_left_folders, make_folder, store_result
from decoder_service.worker.worker import Worker
from rappor_server.errors import StorageError
from rappor_server.logs import make_log
from tests.decoder_service.bench import on_bench


@pytest.mark.long
def test_unstorable_results_hold_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with on_bench(tmp_path) as bench:
        jobs = [bench.submit({"numbers": [0, 50]}, options={"alpha": one}) for one in (0.01, 0.02)]

        def refusing(db: Any, job: Any, *given: Any) -> str:
            if job.id == jobs[0].id:
                raise StorageError("the database failed: DataError: string or blob too big")
            return store_result(db, job, *given)

        monkeypatch.setattr(worker, "store_result", refusing)
        deadline = time.monotonic() + 60

        def over() -> bool:
            states = {bench.get(one).state for one in jobs}
            return states <= {"done", "failed"} or time.monotonic() > deadline

        Worker(bench.service.database, bench.settings, make_log("error")).run(over)
        bad, good = (bench.get(one) for one in jobs)
    assert (bad.state, good.state) == ("failed", "done")
    assert bad.reason.startswith("it could not be stored: the database failed: DataError")


def test_a_defect_does_not_end_the_housekeeping() -> None:
    errors: list[Exception] = [RuntimeError("a defect"), StorageError("busy"), KeyError("another")]
    done = asyncio.Event()

    def keep_house() -> None:
        if errors:
            raise errors.pop()
        done.set()

    async def keep(log: Any) -> None:
        chore = asyncio.create_task(app._repeat(keep_house, "failed", 0.001, log))
        try:
            await asyncio.wait_for(done.wait(), 10)
        finally:
            chore.cancel()

    text = io.StringIO()
    asyncio.run(keep(make_log("info", text)))
    assert text.getvalue().count('"defect"') == 2
    assert "a defect" not in text.getvalue()


def left(work: Path) -> list[Path]:
    return list(work.glob(f"{PREFIX}*"))


def test_folders_go_with_the_process_that_made_them(tmp_path: Path) -> None:
    """In a container that starts again: the id of the dead worker is that of a live process."""
    own = tmp_path / f"{PREFIX}{os.getpid()}-{'a' * 16}-1"
    own.mkdir()
    made = make_folder(tmp_path, "f" * 16)
    (made.path / "candidates.txt").write_text("secret")
    assert made.path.stat().st_mode & 0o077 == 0
    delete_left_folders(tmp_path)
    assert left(tmp_path) == [made.path]  # of a worker that lives
    os.close(made.lock)  # as the kernel does at a death
    assert (made.path / "candidates.txt").exists()
    delete_left_folders(tmp_path)
    assert left(tmp_path) == []


def test_folders_are_made_while_others_are_deleted(tmp_path: Path) -> None:
    stop = threading.Event()

    def delete() -> None:
        while not stop.is_set():
            delete_left_folders(tmp_path)

    thread = threading.Thread(target=delete)
    thread.start()
    before = psutil.Process().num_fds()
    try:
        for _ in range(300):
            folder = make_folder(tmp_path, "b" * 16)
            (folder.path / "out").mkdir()
            assert folder.path.is_dir()
            folder.delete()
    finally:
        stop.set()
        thread.join()
    delete_left_folders(tmp_path)
    assert left(tmp_path) == []
    assert psutil.Process().num_fds() <= before + 1


def test_a_link_of_a_stranger_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / f"{PREFIX}x").symlink_to(tmp_path / "other")
    delete_left_folders(tmp_path)
    assert list((tmp_path / "other").iterdir()) == []


def test_a_job_that_cannot_start_leaves_no_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(running, "prepare", lambda _: None)  # no process is started
    with on_bench(tmp_path) as bench:
        job = bench.submit({"numbers": [0, 9]})
        with bench.service.database.writing() as db:
            db.execute(delete(aggregate_readers))
            db.execute(delete(AggregateRow))
        turns = iter([False, True])
        Worker(bench.service.database, bench.settings, make_log("error")).run(lambda: next(turns))
        found = bench.get(job)
    assert found.state == "failed"
    assert re.fullmatch("aggregate [0-9a-f]{64} was deleted", found.reason)
