"""Counts that people upload, or that jobs read: kept by their digest."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from decoder_service.jobs.known_counts import shape_of
from decoder_service.people.access import AuditedOperations
from decoder_service.people.permissions import Act, Person, require, visible_aggregates
from decoder_service.shell.database import insert_once, save, total
from decoder_service.shell.errors import QuotaError
from decoder_service.shell.models import LIVE, AggregateRow, JobRow, ResultRow, aggregate_readers
from decoder_service.worker.uploads import Reader
from rappor_core.aggregate import Aggregate
from rappor_core.errors import AggregateError, MetricsFileError, ParameterError


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregates(AuditedOperations):
    """Operations on uploaded aggregates, which are known by their digest. Each checks the
    person's role."""

    reader: Reader

    def upload(self, person: Person, content: bytes) -> AggregateRow:
        """Store an aggregate file. Raises RoleError, QuotaError, and RapporError if it is no
        aggregate file."""
        require(person, Act.ANALYSE)
        row = self.reader.read(described, content, self.now())
        with self.database.writing() as db:
            held = aggregate_bytes_of(db, person.id) + len(row.content)
            most = self.settings.max_stored_bytes_of_person
            if held > most:
                raise QuotaError(f"your aggregates would hold {held:,} bytes, above {most:,}")
            save_aggregate(db, row, person.id)
            self.access.note(db, person, "upload-aggregate", sha256=row.sha256)
        return row

    def all(self, person: Person, limit: int = 1000) -> list[AggregateRow]:
        """The aggregates that a person may decode, newest first, without the counts. Raises
        RoleError."""
        require(person, Act.ANALYSE)
        seen = select(AggregateRow).where(visible_aggregates(person))
        with self.database.reading() as db:
            return list(db.scalars(seen.order_by(AggregateRow.created.desc()).limit(limit)))


def save_aggregate(db: Session, row: AggregateRow, person: str) -> None:
    """Insert an aggregate unless it exists, and let a person read it."""
    if db.get(AggregateRow, row.sha256) is None:
        save(db, row)
    insert_once(db, aggregate_readers, {"sha256": row.sha256, "person_id": person})


def load_aggregate_content(db: Session, sha: str) -> bytes | None:
    """The bytes of an aggregate file."""
    return db.scalar(select(AggregateRow.content).where(AggregateRow.sha256 == sha))


def aggregate_bytes_of(db: Session, person: str) -> int:
    """Number of bytes of the aggregates that a person may read."""
    sizes = select(func.sum(func.length(AggregateRow.content))).join(aggregate_readers)
    return total(db, sizes.where(aggregate_readers.c.person_id == person))


def delete_unused_aggregates(db: Session, before: float) -> int:
    """Delete aggregates from before a time that no result was made of and no live job names.

    Returns how many. On SQLite the transaction keeps others from queueing meanwhile; on PostgreSQL
    a job that is queued at the same time ends with a reason in words.
    """
    unused = set(db.scalars(select(AggregateRow.sha256).where(AggregateRow.created < before)))
    if not unused:
        return 0
    for manifest in db.scalars(select(ResultRow.manifest)):
        for shas in json.loads(manifest).get("inputs", {}).get("aggregates", []):
            unused.difference_update(shas)
    for spec in db.scalars(select(JobRow.spec).where(JobRow.state.in_(LIVE))):
        given = json.loads(spec)
        for source in (given.get("source"), given.get("before")):
            unused.difference_update((source or {}).get("aggregates", []))
    for sha in sorted(unused):
        db.execute(delete(aggregate_readers).where(aggregate_readers.c.sha256 == sha))
        db.execute(delete(AggregateRow).where(AggregateRow.sha256 == sha))
    return len(unused)


def described(content: bytes | str, at: float) -> AggregateRow:
    """The row of an aggregate file, with its bytes in the canonical form that digests are made of.

    Raises AggregateError, WireFormatError.
    """
    try:
        one = Aggregate.from_json(content)
    except (ParameterError, MetricsFileError) as error:  # of its parameters, its definition
        raise AggregateError(str(error)) from error
    text = one.to_json().encode()
    num_cohorts, own_values = shape_of(one.definition, one.params)
    return AggregateRow(
        sha256=sha256(text).hexdigest(),
        metric=one.metric,
        params_id=one.params_id,
        first_day=one.first_day.isoformat() if one.first_day else None,
        last_day=one.last_day.isoformat() if one.last_day else None,
        num_reports=one.num_reports,
        content=text,
        created=at,
        kind=str(one.definition["kind"])[:32] if "kind" in one.definition else None,
        num_cohorts=num_cohorts,
        own_values=own_values,
    )
