"""Database rows of results. A result is inserted once; only its visibility changes."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update

from decoder_service.shell.models import jobs, people, result_files, result_readers, results

_AT_ONCE = 500  # ids in one statement
_LEVEL = 6  # of zlib; the same input gives the same bytes


@dataclass(frozen=True, slots=True)
class ResultRow:
    """The database row of a result, without its files.

    key: digest of aggregates, candidates, options and version.  input_digest: the same without the
    version.  supersedes: id of the result of an earlier version from the same inputs.
    operation: of the job.  kind: of the metric.
    manifest, summary: JSON.  released_by: id of a person, None where it is not known.
    stored: bytes of its files as they are kept.
    """

    id: str
    key: str
    input_digest: str
    supersedes: str | None
    operation: str
    kind: str
    metric: str
    params_id: str
    first_day: str | None
    last_day: str | None
    version: str
    manifest: str
    summary: str
    released: bool
    created: float
    released_by: str | None = None
    stored: int = 0


@dataclass(frozen=True, slots=True)
class FileRow:
    """The database row of a result's file. `size`: bytes; `sha256`: of them."""

    name: str
    sha256: str
    size: int


_COLUMNS = [results.c[name] for name in ResultRow.__slots__]
_FILE = [result_files.c[name] for name in FileRow.__slots__]


def result_of_key(connection: Connection, key: str) -> ResultRow | None:
    """The one result of a key."""
    row = connection.execute(select(*_COLUMNS).where(results.c.key == key)).first()
    return None if row is None else ResultRow(*row)


def result_of_id(connection: Connection, result_id: str) -> ResultRow | None:
    """The result of an id, without a check of who asks."""
    row = connection.execute(select(*_COLUMNS).where(results.c.id == result_id)).first()
    return None if row is None else ResultRow(*row)


def latest_of_inputs(connection: Connection, input_digest: str) -> str | None:
    """The newest result from the same inputs, whatever its version."""
    statement = select(results.c.id).where(results.c.input_digest == input_digest)
    ordered = statement.order_by(results.c.created.desc(), results.c.id)
    return connection.execute(ordered.limit(1)).scalar()


def packed_files(column: str, owner: str, files: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """Rows of files with compressed content. column: the one that names their owner."""
    return [
        {
            column: owner,
            "name": name,
            "sha256": sha256(content).hexdigest(),
            "size": len(content),
            "content": zlib.compress(content, _LEVEL),
        }
        for name, content in files.items()
    ]


def save_result(connection: Connection, row: ResultRow, files: Mapping[str, bytes]) -> None:
    """Insert a result and its files, and count the bytes that they take."""
    values = {name: getattr(row, name) for name in row.__slots__}
    packed = packed_files("result_id", row.id, files)
    stored = sum(len(one["content"]) for one in packed)
    connection.execute(insert(results).values(values | {"stored": stored}))
    if packed:
        connection.execute(insert(result_files), packed)


def let_read(connection: Connection, result_id: str, person: str) -> None:
    """Let a person read a result."""
    columns = result_readers.c
    known = select(1).where(columns.result_id == result_id, columns.person_id == person)
    if connection.execute(known).first() is None:
        values = {"result_id": result_id, "person_id": person}
        connection.execute(insert(result_readers).values(values))


def result_bytes_of(connection: Connection, person: str) -> int:
    """Number of bytes of the results that a person holds, those shared with others too."""
    size = select(func.coalesce(func.sum(results.c.stored), 0)).join(result_readers)
    return int(connection.execute(size.where(result_readers.c.person_id == person)).scalar_one())


def hold_still(connection: Connection, person: str) -> None:
    """Block other transactions from adding to a person's results until this one ends
    (PostgreSQL)."""
    row = select(people.c.id).where(people.c.id == person)
    connection.execute(row.with_for_update(key_share=True))


def give_up(connection: Connection, result_id: str, person: str) -> bool:
    """Remove a result from a person; return False if the person did not hold it."""
    columns = result_readers.c
    which = (columns.result_id == result_id) & (columns.person_id == person)
    return connection.execute(delete(result_readers).where(which)).rowcount == 1


def give_up_all(connection: Connection, result_id: str) -> None:
    """Take a result from everybody."""
    connection.execute(delete(result_readers).where(result_readers.c.result_id == result_id))


def delete_old_results(connection: Connection, before: float) -> int:
    """Delete results that were made before a time and are not released; how many.

    Those that a live job decodes again stay; jobs that are over keep their rows.
    """
    return delete_results(connection, results.c.created < before)


def delete_superseded(connection: Connection, before: float) -> int:
    """Delete the results that a later version had superseded before a time; return their number."""
    later = results.alias()
    newer = select(later.c.supersedes).where(later.c.supersedes.is_not(None))
    return delete_results(connection, results.c.id.in_(newer.where(later.c.created < before)))


def delete_unheld(connection: Connection, result_id: str | None = None) -> int:
    """Delete the results that nobody holds any more, or one of them; return their number."""
    holders = select(result_readers.c.result_id).where(result_readers.c.result_id == results.c.id)
    which = ~holders.exists()
    return delete_results(
        connection, which if result_id is None else which & (results.c.id == result_id)
    )


def delete_results(connection: Connection, which: ColumnElement[bool]) -> int:
    """Delete results that are not released and that no live job decodes again; how many."""
    checked = select(jobs.c.checks).where(jobs.c.checks.is_not(None), jobs.c.ended.is_(None))
    old = select(results.c.id).where(
        which, results.c.released.is_(False), results.c.id.not_in(checked)
    )
    ids = [str(row[0]) for row in connection.execute(old)]
    for start in range(0, len(ids), _AT_ONCE):
        part = ids[start : start + _AT_ONCE]
        for column in (jobs.c.result_id, jobs.c.checks):
            connection.execute(update(jobs).where(column.in_(part)).values({column: None}))
        for table in (result_readers, result_files):
            connection.execute(delete(table).where(table.c.result_id.in_(part)))
        connection.execute(delete(results).where(results.c.id.in_(part)))
    return len(ids)


def set_released(connection: Connection, result_id: str, person: str | None) -> None:
    """Show a result to every viewer, or to nobody else. person: who releases it; None takes it
    back."""
    values = {"released": person is not None, "released_by": person}
    connection.execute(update(results).where(results.c.id == result_id).values(values))


def load_results(
    connection: Connection, which: ColumnElement[bool], limit: int, offset: int = 0
) -> list[ResultRow]:
    """Load results, newest first."""
    statement = select(*_COLUMNS).where(which).order_by(results.c.created.desc(), results.c.id)
    return [ResultRow(*row) for row in connection.execute(statement.limit(limit).offset(offset))]


def load_result_files(connection: Connection, result_id: str) -> list[FileRow]:
    """The files of a result, by name."""
    statement = select(*_FILE).where(result_files.c.result_id == result_id)
    return [FileRow(*row) for row in connection.execute(statement.order_by(result_files.c.name))]


def load_file(connection: Connection, result_id: str, name: str) -> bytes | None:
    """The bytes of a file."""
    statement = select(result_files.c.content).where(
        result_files.c.result_id == result_id, result_files.c.name == name
    )
    found = connection.execute(statement).scalar()
    return None if found is None else zlib.decompress(bytes(found))
