"""Doing queued jobs in the process of a test: all that a worker does, but for its processes."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx

from decoder.errors import DecodeError
from decoder.progress import silent
from decoder.sources.collector_client import KEY_VARIABLE
from decoder_service.jobs import rules as claims
from decoder_service.results.rules import let_read, result_of_key
from decoder_service.shell.models import JobState
from decoder_service.shell.service import DecoderService
from decoder_service.worker.execution import Keyed, execute
from decoder_service.worker.running import make_task, store_result
from rappor_core.errors import RapporError
from tests.decoder_service.support import Running, submit


def do_jobs(service: DecoderService, folder: Path) -> int:
    """Do every queued job; how many."""
    done = 0
    while do_job(service, folder / f"job-{os.urandom(4).hex()}"):
        done += 1
    return done


def done(served: Running, client: httpx.Client, folder: Path, spec: dict[str, Any]) -> str:
    """The id of the result of a job."""
    job = submit(client, spec)
    assert do_jobs(served.service, folder) == 1
    ended = client.get(f"/v1/jobs/{job}").json()
    assert ended["state"] == "done", ended
    return str(ended["result_id"])


@contextmanager
def working(served: Running, folder: Path) -> Iterator[None]:
    """A worker on a thread of this process."""
    over, failed = threading.Event(), []

    def work() -> None:
        try:
            while not over.wait(0.05):
                do_jobs(served.service, folder)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert failed == []


def do_job(service: DecoderService, folder: Path) -> bool:
    """Do the next job; False where there is none."""
    folder.mkdir()
    database, keyed = service.database, []
    with database.writing() as db:
        hold = claims.claim(db, "test", os.urandom(8).hex(), 600.0)
    if hold is None:
        return False
    with database.reading() as db:
        job = claims.load_held(db, hold)
        assert job is not None

    def proceed(one: Keyed) -> bool:
        keyed.append(one)
        with database.reading() as db:
            return result_of_key(db, one.key) is None

    try:
        with database.reading() as db:
            task = make_task(db, job, folder, service.settings)
        key = {KEY_VARIABLE: task.collector_key or ""}  # as the process of a job sets it
        with patch.dict(os.environ, key):
            finished = execute(task, silent, proceed)
    except RapporError as error:
        with database.writing() as db:
            claims.end(db, hold, JobState.FAILED, str(error))
        return True
    with database.writing() as db:
        if finished is None:
            known = result_of_key(db, keyed[0].key)
            if known is None:
                raise DecodeError("no result")
            result = known.id
            let_read(db, result, job.owner)
        else:
            at = service.clock().timestamp()
            result = store_result(db, job, folder, keyed[0], finished, at)
        assert claims.end(db, hold, JobState.DONE, "", result)
    return True
