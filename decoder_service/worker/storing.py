"""Move data between the database and a job's folder: its inputs, and the result that it leaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from decoder.errors import DecodeError
from decoder_service.jobs.rules import LISTS
from decoder_service.jobs.specs import CandidateSpec, JobSpec, ListSpec, canonical
from decoder_service.lists.contents import FILES
from decoder_service.lists.rules import (
    described,
    load_aggregate_content,
    load_content,
    save_aggregate,
)
from decoder_service.people.permissions import check_room
from decoder_service.results.rows import let_read, save_result
from decoder_service.shell.models import JobRow, ListVersionRow, ResultRow
from decoder_service.shell.operations import decoder_version
from decoder_service.shell.settings import ServiceSettings, secret_text
from decoder_service.worker.execution import Keyed, ListFile, Task, TaskFinished

_GONE = "a list of this job was deleted; start it again with another"


def make_task(db: Session, job: JobRow, folder: Path, settings: ServiceSettings) -> Task:
    """Write the inputs of a job into its folder.

    Raises DecodeError where a list or an aggregate is not there any more.
    """
    spec, counts = JobSpec.model_validate_json(job.spec), list[tuple[Path, ...] | None]()
    for source in spec.sources:
        paths = []
        for sha in source.aggregates:
            content, why = load_aggregate_content(db, sha), f"aggregate {sha} was deleted"
            paths.append(_written(folder / f"{sha}.json", content, why))
        counts.append(None if source.collector else tuple(paths))
    lists = {}
    for name, kind in LISTS.items():
        wanted: CandidateSpec | ListSpec | None = getattr(spec, name)
        if wanted is not None and wanted.list is not None:
            version = db.get(ListVersionRow, (wanted.list, wanted.version))
            sha = version.sha256 if version else ""
            path = folder / f"{name}.{FILES[kind].suffix}"
            lists[name] = ListFile(_written(path, load_content(db, sha), _GONE), sha)
    return Task(
        spec=spec,
        counts=tuple(counts),
        lists=lists,
        folder=folder,
        version=decoder_version(),
        collector=settings.collector,
        collector_key=secret_text(settings.collector_key),
        memory=settings.job_memory_bytes,
        file_size=settings.max_result_bytes,
    )


def _written(path: Path, content: bytes | None, why: str) -> Path:
    """A file with this content. Raises DecodeError where there is none."""
    if content is None:
        raise DecodeError(why)
    path.write_bytes(content)
    return path


def store_result(
    db: Session,
    job: JobRow,
    folder: Path,
    keyed: Keyed,
    finished: TaskFinished,
    random_bytes: Callable[[int], bytes],
    at: float,
) -> str:
    """Insert a result with its files and aggregates, in the transaction that ends its job.

    Returns its id. Raises ConflictError where another job was first.
    """
    files = {path.name: path.read_bytes() for path in sorted((folder / "out").iterdir())}
    version = decoder_version()
    same = select(ResultRow.id).where(ResultRow.input_digest == keyed.input_digest)
    row = ResultRow(
        id=random_bytes(8).hex(),
        key=keyed.key,
        input_digest=keyed.input_digest,
        supersedes=db.scalar(same.order_by(ResultRow.created.desc(), ResultRow.id).limit(1)),
        operation=job.operation,
        kind=finished.kind,
        metric=keyed.metric,
        params_id=finished.params_id,
        first_day=finished.first_day,
        last_day=finished.last_day,
        version=version,
        manifest=canonical(finished.manifest | {"version": version}),
        summary=json.dumps(finished.summary, allow_nan=False),
        released=False,
        created=at,
    )
    save_result(db, row, files)
    let_read(db, row.id, job.owner)
    for path in sorted((folder / "aggregates").iterdir()):
        save_aggregate(db, described(path.read_bytes(), at), job.owner)
    return row.id


def give(db: Session, job: JobRow, result_id: str, settings: ServiceSettings) -> str:
    """Let the owner of a job hold an existing result; return its id. Raises QuotaError where it
    is too much."""
    let_read(db, result_id, job.owner)
    check_room(db, settings, job.owner, given=True)
    return result_id
