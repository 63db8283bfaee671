"""Database rows of aggregates that were uploaded, or read for a job, keyed by the digest of
their bytes."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select

from decoder_service.jobs.rows import LIVE
from decoder_service.shell.models import aggregate_readers, aggregates, jobs, results


@dataclass(frozen=True, slots=True)
class AggregateRow:
    """An aggregate without its counts. Days are YYYY-MM-DD, None where unknown.

    kind: of the metric, None where the file does not say.  num_cohorts: of its parameters.
    own_values: whether the metric lists its values; both None where that was not looked at.
    """

    sha256: str
    metric: str
    params_id: str
    first_day: str | None
    last_day: str | None
    num_reports: int
    created: float
    kind: str | None = None
    num_cohorts: int | None = None
    own_values: bool | None = None


_COLUMNS = [aggregates.c[name] for name in AggregateRow.__slots__]


def save_aggregate(connection: Connection, row: AggregateRow, content: bytes, person: str) -> None:
    """Insert an aggregate unless it exists, and let a person read it."""
    if not _is_there(connection, aggregates.c.sha256 == row.sha256):
        values = {name: getattr(row, name) for name in row.__slots__}
        connection.execute(insert(aggregates).values(values | {"content": content}))
    reader = {"sha256": row.sha256, "person_id": person}
    columns = aggregate_readers.c
    known = (columns.sha256 == row.sha256) & (columns.person_id == person)
    if not _is_there(connection, known):
        connection.execute(insert(aggregate_readers).values(reader))


def _is_there(connection: Connection, which: ColumnElement[bool]) -> bool:
    return connection.execute(select(1).where(which)).first() is not None


def load_aggregates(
    connection: Connection, visible: ColumnElement[bool], limit: int
) -> list[AggregateRow]:
    """Load aggregates without their counts, newest first."""
    statement = select(*_COLUMNS).where(visible).order_by(aggregates.c.created.desc()).limit(limit)
    return [AggregateRow(*row) for row in connection.execute(statement)]


def load_aggregate_content(connection: Connection, sha256: str) -> bytes | None:
    """The bytes of an aggregate file."""
    statement = select(aggregates.c.content).where(aggregates.c.sha256 == sha256)
    found = connection.execute(statement).scalar()
    return None if found is None else bytes(found)


def aggregate_bytes_of(connection: Connection, person: str) -> int:
    """Number of bytes of the aggregates that a person may read."""
    size = func.coalesce(func.sum(func.length(aggregates.c.content)), 0)
    statement = select(size).join(aggregate_readers)
    return int(
        connection.execute(statement.where(aggregate_readers.c.person_id == person)).scalar_one()
    )


def delete_unused_aggregates(connection: Connection, before: float) -> int:
    """Delete aggregates from before a time that no result was made of and no live job names.

    Returns how many. On SQLite the transaction keeps others from queueing meanwhile; on PostgreSQL
    a job that is queued at the same time ends with a reason in words.
    """
    old = select(aggregates.c.sha256).where(aggregates.c.created < before)
    unused = {str(row[0]) for row in connection.execute(old)}
    if not unused:
        return 0
    for (manifest,) in connection.execute(select(results.c.manifest)):
        for shas in json.loads(manifest).get("inputs", {}).get("aggregates", []):
            unused.difference_update(shas)
    for (spec,) in connection.execute(select(jobs.c.spec).where(jobs.c.state.in_(LIVE))):
        found = json.loads(spec)
        for source in (found.get("source"), found.get("before")):
            unused.difference_update((source or {}).get("aggregates", []))
    for sha in sorted(unused):
        for table in (aggregate_readers, aggregates):
            connection.execute(delete(table).where(table.c.sha256 == sha))
    return len(unused)
