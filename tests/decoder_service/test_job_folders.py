"""Folders of jobs: deleted with their worker's lock, never under a worker that lives."""

import os
import threading
from pathlib import Path

import psutil
import pytest
from sqlalchemy import delete

from decoder_service.jobs.specs import CountSource, JobSpec
from decoder_service.people.access import COMMAND_LINE
from decoder_service.people.permissions import Role
from decoder_service.shell.models import AggregateRow, aggregate_readers
from decoder_service.shell.service import make_service
from decoder_service.shell.settings import ServiceSettings
from decoder_service.worker import running
from decoder_service.worker.running import PREFIX, delete_left_folders, make_folder
from decoder_service.worker.worker import Worker
from rappor_server.logs import make_log
from rappor_server.schema import prepare
from tests.decoder_service.support import STRINGS


def left(work: Path) -> list[Path]:
    return list(work.glob(f"{PREFIX}*"))


def test_folders_go_with_the_process_that_made_them(tmp_path: Path) -> None:
    """As in a container that starts again: the id of the dead worker is that of a live process."""
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


def test_a_job_that_cannot_start_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "prepare", lambda _: None)  # no process is started
    settings = ServiceSettings(database=f"sqlite:///{tmp_path}/d.sqlite", work_folder=tmp_path)
    service = make_service(settings)
    prepare(service.database)
    key = service.access.create_key(COMMAND_LINE, "ana", Role.ANALYST).text
    ana = service.access.person_of_key(key)
    sha = service.aggregates.upload(ana, STRINGS).sha256
    given = {"source": CountSource(aggregates=[sha]), "candidates": {"numbers": [0, 9]}}
    spec = JobSpec.model_validate({"operation": "decode", **given})
    job = service.jobs.submit(ana, spec)
    with service.database.writing() as db:
        db.execute(delete(aggregate_readers))
        db.execute(delete(AggregateRow))
    turns = iter([False, True])
    Worker(service.database, settings, make_log("error")).run(lambda: next(turns))
    found = service.jobs.get(ana, job.id)
    service.close()
    assert (found.state, found.reason) == ("failed", f"aggregate {sha} was deleted")
    assert left(tmp_path) == []
