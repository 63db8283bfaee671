"""Statements on aggregates that were uploaded, or read for a job."""

from __future__ import annotations

import json

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.orm import Session

from decoder_service.jobs.rows import LIVE
from decoder_service.shell.database import insert_once, save
from decoder_service.shell.models import AggregateRow, JobRow, ResultRow, aggregate_readers


def save_aggregate(db: Session, row: AggregateRow, person: str) -> None:
    """Insert an aggregate unless it exists, and let a person read it."""
    if db.get(AggregateRow, row.sha256) is None:
        save(db, row)
    insert_once(db, aggregate_readers, {"sha256": row.sha256, "person_id": person})


def load_aggregates(db: Session, visible: ColumnElement[bool], limit: int) -> list[AggregateRow]:
    """Load aggregates without their counts, newest first."""
    newest = select(AggregateRow).where(visible).order_by(AggregateRow.created.desc())
    return list(db.scalars(newest.limit(limit)))


def load_aggregate_content(db: Session, sha256: str) -> bytes | None:
    """The bytes of an aggregate file."""
    return db.scalar(select(AggregateRow.content).where(AggregateRow.sha256 == sha256))


def aggregate_bytes_of(db: Session, person: str) -> int:
    """Number of bytes of the aggregates that a person may read."""
    size = select(func.coalesce(func.sum(func.length(AggregateRow.content)), 0))
    own = aggregate_readers.c.person_id == person
    return int(db.execute(size.join(aggregate_readers).where(own)).scalar_one())


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
        found = json.loads(spec)
        for source in (found.get("source"), found.get("before")):
            unused.difference_update((source or {}).get("aggregates", []))
    for sha in sorted(unused):
        db.execute(delete(aggregate_readers).where(aggregate_readers.c.sha256 == sha))
        db.execute(delete(AggregateRow).where(AggregateRow.sha256 == sha))
    return len(unused)
