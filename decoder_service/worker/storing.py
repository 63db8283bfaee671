"""Move data between the database and a job's folder: its inputs, and the result that it leaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from decoder.errors import DecodeError
from decoder_service.jobs.rules import LISTS
from decoder_service.jobs.specs import CandidateSpec, CountSource, JobSpec, ListSpec, canonical
from decoder_service.lists.aggregates import described, load_aggregate_content, save_aggregate
from decoder_service.lists.rules import load_content
from decoder_service.people.access import person_of_id
from decoder_service.people.permissions import Role
from decoder_service.people.quotas import check_held
from decoder_service.results.rows import RESULT_FILES, let_read, save_result
from decoder_service.shell.database import now
from decoder_service.shell.models import JobRow, ListVersionRow, ResultRow
from decoder_service.shell.operations import decoder_version
from decoder_service.shell.settings import ServiceSettings, secret_text
from decoder_service.worker.execution import Keyed, ListFile, Task, TaskFinished

Stored = TypeVar("Stored")
_FILES = {  # of the lists that a job reads
    "candidates": "candidates.txt",
    "weights": "weights.csv",
    "known": "known.csv",
    "areas": "areas.geojson",
}
_GONE = "a list of this job was deleted; start it again with another"


def make_task(db: Session, job: JobRow, folder: Path, settings: ServiceSettings) -> Task:
    """Write the inputs of a job into its folder.

    Raises DecodeError where a list or an aggregate is not there any more.
    """
    spec = JobSpec.model_validate_json(job.spec)
    checked = None if job.checks is None else db.get(ResultRow, job.checks)
    if checked is not None:  # from the very bytes that the result was made from
        inputs = json.loads(checked.manifest)["inputs"]
        counts: list[tuple[Path, ...] | None] = [
            _write_counts(db, shas, folder) for shas in inputs["aggregates"]
        ]
        named = {name: inputs.get(name) for name in LISTS}
    else:
        counts = [_counts(db, source, folder, settings) for source in spec.sources]
        named = {name: _list_digest(db, getattr(spec, name)) for name in LISTS}
    return Task(
        spec=spec,
        counts=tuple(counts),
        lists={
            name: ListFile(_write_list(db, sha, folder / _FILES[name]), sha)
            for name, sha in named.items()
            if sha is not None
        },
        folder=folder,
        version=decoder_version(),
        collector=settings.collector,
        collector_key=secret_text(settings.collector_key),
        memory=settings.job_memory_bytes,
        file_size=settings.max_result_bytes,
    )


def _counts(
    db: Session, source: CountSource, folder: Path, settings: ServiceSettings
) -> tuple[Path, ...] | None:
    if source.collector is not None:
        return None
    if source.aggregates:
        return _write_counts(db, source.aggregates, folder)
    if settings.aggregate_folder is None:
        raise DecodeError("this worker has no folder of aggregates; set aggregate_folder")
    return tuple(settings.aggregate_folder / name for name in source.files)


def _write_counts(db: Session, shas: list[str], folder: Path) -> tuple[Path, ...]:
    paths = []
    for sha in shas:
        content = _there(load_aggregate_content(db, sha), f"aggregate {sha} was deleted")
        paths.append(folder / f"{sha}.json")
        paths[-1].write_bytes(content)
    return tuple(paths)


def _list_digest(db: Session, wanted: CandidateSpec | ListSpec | None) -> str | None:
    if wanted is None or wanted.list is None:
        return None
    return _there(db.get(ListVersionRow, (wanted.list, wanted.version)), _GONE).sha256


def _write_list(db: Session, sha: str, path: Path) -> Path:
    path.write_bytes(_there(load_content(db, sha), _GONE))
    return path


def _there(stored: Stored | None, why: str) -> Stored:
    """What was stored. Raises DecodeError where it was deleted."""
    if stored is None:
        raise DecodeError(why)
    return stored


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
    since = now(db) - settings.oidc_role_days * 86_400.0
    owner = person_of_id(db, job.owner, since)
    role = Role.ANALYST if owner is None else owner.role
    check_held(db, settings, job.owner, role)
    return result_id


def differences(db: Session, result_id: str, folder: Path) -> tuple[list[str], int]:
    """Names of the files that differ from those of a stored result, and number of files
    compared."""
    stored = {row.name: row.sha256 for row in RESULT_FILES.list(db, result_id)}
    made = {path.name: sha256(path.read_bytes()).hexdigest() for path in (folder / "out").iterdir()}
    names = sorted(stored.keys() | made.keys())
    return [name for name in names if stored.get(name) != made.get(name)], len(names)
