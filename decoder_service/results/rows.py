"""Statements on results, and on the files of results and releases.

A result is inserted once; only its visibility changes.
"""

import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from sqlalchemy import ColumnElement, Table, delete, func, insert, select, update
from sqlalchemy.orm import Session

from decoder_service.shell.database import changed, insert_once, save, total
from decoder_service.shell.models import (
    JobRow,
    ResultRow,
    release_files,
    result_files,
    result_readers,
)

_AT_ONCE = 500  # ids in one statement
_LEVEL = 6  # of zlib; the same input gives the same bytes


def result_of_key(db: Session, key: str) -> ResultRow | None:
    """The one result of a key."""
    return db.scalar(select(ResultRow).where(ResultRow.key == key))


def save_result(db: Session, row: ResultRow, files: Mapping[str, bytes]) -> None:
    """Insert a result and its files, and count the bytes that they take."""
    save(db, row)
    row.stored = RESULT_FILES.save(db, row.id, files)
    db.flush()


def let_read(db: Session, result_id: str, person: str) -> None:
    """Let a person read a result."""
    insert_once(db, result_readers, {"result_id": result_id, "person_id": person})


def result_bytes_of(db: Session, person: str) -> int:
    """Number of bytes of the results that a person holds, those shared with others too."""
    sizes = select(func.sum(ResultRow.stored)).join(result_readers)
    return total(db, sizes.where(result_readers.c.person_id == person))


def give_up(db: Session, result_id: str, person: str) -> bool:
    """Remove a result from a person; return False if the person did not hold it."""
    columns = result_readers.c
    which = (columns.result_id == result_id) & (columns.person_id == person)
    return changed(db, delete(result_readers).where(which)) == 1


def delete_unheld(db: Session, result_id: str | None = None) -> int:
    """Delete the results that nobody holds any more, or one of them; return their number."""
    which = ~select(1).where(result_readers.c.result_id == ResultRow.id).exists()
    return delete_results(db, which if result_id is None else which & (ResultRow.id == result_id))


def delete_results(db: Session, which: ColumnElement[bool]) -> int:
    """Delete results that are not released; how many."""
    ids = list(db.scalars(select(ResultRow.id).where(which, ResultRow.released.is_(False))))
    for start in range(0, len(ids), _AT_ONCE):
        part = ids[start : start + _AT_ONCE]
        db.execute(update(JobRow).where(JobRow.result_id.in_(part)).values(result_id=None))
        for table in (result_readers, result_files):
            db.execute(delete(table).where(table.c.result_id.in_(part)))
        db.execute(delete(ResultRow).where(ResultRow.id.in_(part)))
    return len(ids)


def load_results(db: Session, which: ColumnElement[bool], limit: int) -> list[ResultRow]:
    """Load results, newest first."""
    newest = select(ResultRow).where(which).order_by(ResultRow.created.desc(), ResultRow.id)
    return list(db.scalars(newest.limit(limit)))


@dataclass(frozen=True, slots=True)
class FileTable:
    """The files in one table. owner: its column of ids."""

    table: Table
    owner: str

    def save(self, db: Session, owner: str, files: Mapping[str, bytes]) -> int:
        """Insert files of a result or release; return how many bytes they take."""
        rows: list[dict[str, Any]] = [
            {
                self.owner: owner,
                "name": name,
                "sha256": sha256(content).hexdigest(),
                "size": len(content),
                "content": zlib.compress(content, _LEVEL),
            }
            for name, content in files.items()
        ]
        if rows:
            db.execute(insert(self.table), rows)
        return sum(len(row["content"]) for row in rows)

    def list(self, db: Session, owner: str) -> Sequence[Any]:
        """Name, SHA-256 and size before compression of the files of a result or release."""
        columns = self.table.c
        own = select(columns.name, columns.sha256, columns.size).where(columns[self.owner] == owner)
        return db.execute(own.order_by(columns.name)).all()

    def all(
        self, db: Session, owner: str, names: Collection[str] | None = None
    ) -> dict[str, bytes]:
        """The files of a result or release, or those with some names; deleted ones are empty."""
        columns = self.table.c
        own = select(columns.name, columns.content).where(columns[self.owner] == owner)
        if names is not None:
            own = own.where(columns.name.in_(names))
        files = db.execute(own.order_by(columns.name))
        return {name: zlib.decompress(content) if content else b"" for name, content in files}

    def read(self, db: Session, owner: str, name: str) -> bytes | None:
        """The bytes of a file; None where there is none, or they were deleted."""
        columns = self.table.c
        own = (columns[self.owner] == owner, columns.name == name)
        content = db.scalar(select(columns.content).where(*own))
        return zlib.decompress(content) if content else None


RESULT_FILES = FileTable(result_files, "result_id")
RELEASE_FILES = FileTable(release_files, "release_id")
