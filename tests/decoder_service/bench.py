"""The service without HTTP, on SQLite, with an analyst who asks for jobs."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decoder_service.jobs.specs import JobSpec
from decoder_service.people.access import COMMAND_LINE
from decoder_service.people.permissions import Person, Role
from decoder_service.shell.models import JobRow
from decoder_service.shell.service import DecoderService, make_service
from decoder_service.shell.settings import ServiceSettings
from rappor_server.schema import prepare
from tests.decoder_service.support import STRINGS


@dataclass
class Bench:
    service: DecoderService
    settings: ServiceSettings
    ana: Person

    def submit(self, candidates: dict[str, Any], **more: Any) -> JobRow:
        sha = self.service.aggregates.upload(self.ana, STRINGS).sha256
        spec = {"operation": "decode", "source": {"aggregates": [sha]}, "candidates": candidates}
        return self.service.jobs.submit(self.ana, JobSpec.model_validate(spec | more))

    def get(self, job: JobRow) -> JobRow:
        return self.service.jobs.get(self.ana, job.id)


@contextmanager
def on_bench(folder: Path, **changes: Any) -> Iterator[Bench]:
    """Jobs of it leave nothing in the folder, where their workers work."""
    given = {
        "database": f"sqlite:///{folder}/d.sqlite",
        "work_folder": folder,
        "poll_seconds": 0.05,
    }
    settings = ServiceSettings(**(given | changes))
    service = make_service(settings)
    prepare(service.database)
    key = service.access.create_key(COMMAND_LINE, "ana", Role.ANALYST).text
    yield Bench(service, settings, service.access.person_of_key(key))
    service.close()
    assert list(folder.glob("rappor-job-*")) == []
