"""One job, or one defect, that fails always: what else there is to do is done."""

import asyncio
import io
import time
from pathlib import Path
from typing import Any

import pytest

from decoder_service.jobs.specs import JobSpec
from decoder_service.people.access import COMMAND_LINE
from decoder_service.people.permissions import Role
from decoder_service.shell import app
from decoder_service.shell.service import make_service
from decoder_service.shell.settings import ServiceSettings
from decoder_service.worker import worker
from decoder_service.worker.running import store_result
from decoder_service.worker.worker import Worker
from rappor_server.errors import StorageError
from rappor_server.logs import make_log
from rappor_server.schema import prepare
from tests.decoder_service.support import STRINGS


@pytest.mark.long
def test_unstorable_results_hold_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ServiceSettings(
        database=f"sqlite:///{tmp_path}/d.sqlite", work_folder=tmp_path, poll_seconds=0.05
    )
    service = make_service(settings)
    prepare(service.database)
    ana = service.access.person_of_key(
        service.access.create_key(COMMAND_LINE, "ana", Role.ANALYST).text
    )
    sha = service.aggregates.upload(ana, STRINGS).sha256
    spec = {
        "operation": "decode",
        "source": {"aggregates": [sha]},
        "candidates": {"numbers": [0, 50]},
    }
    specs = [spec | {"options": {"alpha": alpha}} for alpha in (0.01, 0.02)]
    bad, good = (service.jobs.submit(ana, JobSpec.model_validate(one)) for one in specs)

    def refusing(db: Any, job: Any, *given: Any) -> str:
        if job.id == bad.id:
            raise StorageError("the database failed: DataError: string or blob too big")
        return store_result(db, job, *given)

    monkeypatch.setattr(worker, "store_result", refusing)
    deadline = time.monotonic() + 60

    def over() -> bool:
        states = {service.jobs.get(ana, one.id).state for one in (bad, good)}
        return states <= {"done", "failed"} or time.monotonic() > deadline

    Worker(service.database, settings, make_log("error")).run(over)
    found = [service.jobs.get(ana, one.id) for one in (bad, good)]
    service.close()
    assert [one.state for one in found] == ["failed", "done"]
    assert found[0].reason.startswith("it could not be stored: the database failed: DataError")
    assert list(tmp_path.glob("rappor-job-*")) == []


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
