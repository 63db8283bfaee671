"""The operations on stored results, and the storage of result and release files.

A result is inserted once; only its visibility changes."""

import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from sqlalchemy import ColumnElement, Table, delete, insert, select, update
from sqlalchemy.orm import Session

from decoder.kinds.interface import decoder_of
from decoder_service.people.access import Resources
from decoder_service.people.permissions import Act, Person, own_results, require, visible_results
from decoder_service.shell.database import changed, insert_once, save, shown, visible_row
from decoder_service.shell.errors import RoleError
from decoder_service.shell.models import (
    JobRow,
    ResultRow,
    release_files,
    result_files,
    result_readers,
)
from rappor_server.errors import NotFoundError, RequestError

_AT_ONCE = 500  # the maximum number of ids in one statement
_LEVEL = 6  # The zlib level; the same input compresses to the same bytes
MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "geojson": "application/geo+json",
    "parquet": "application/vnd.apache.parquet",
    "html": "text/html; charset=utf-8",
    "svg": "image/svg+xml",
}


def result_of_key(db: Session, key: str) -> ResultRow | None:
    """Return the only result with a key, or None."""
    return db.scalar(select(ResultRow).where(ResultRow.key == key))


def save_result(db: Session, row: ResultRow, files: Mapping[str, bytes]) -> None:
    """Insert a result and its files, and record their compressed size."""
    save(db, row)
    row.stored = RESULT_FILES.save(db, row.id, files)
    db.flush()


def let_read(db: Session, result_id: str, person: str) -> None:
    """Make a person a holder of a result, who may read it and whose limit it counts toward."""
    insert_once(db, result_readers, {"result_id": result_id, "person_id": person})


def give_up(db: Session, result_id: str, person: str) -> bool:
    """Remove a result from a person; return False if the person did not hold it."""
    columns = result_readers.c
    which = (columns.result_id == result_id) & (columns.person_id == person)
    return changed(db, delete(result_readers).where(which)) == 1


def delete_unheld(db: Session, result_id: str | None = None) -> int:
    """Delete all results that no one holds, or only one such result; return their number."""
    which = ~select(1).where(result_readers.c.result_id == ResultRow.id).exists()
    return delete_results(db, which if result_id is None else which & (ResultRow.id == result_id))


def delete_results(db: Session, which: ColumnElement[bool]) -> int:
    """Delete the matching results that are not released; return their number."""
    ids = list(db.scalars(select(ResultRow.id).where(which, ResultRow.released.is_(False))))
    for start in range(0, len(ids), _AT_ONCE):
        part = ids[start : start + _AT_ONCE]
        db.execute(update(JobRow).where(JobRow.result_id.in_(part)).values(result_id=None))
        for table in (result_readers, result_files):
            db.execute(delete(table).where(table.c.result_id.in_(part)))
        db.execute(delete(ResultRow).where(ResultRow.id.in_(part)))
    return len(ids)


def load_results(db: Session, which: ColumnElement[bool], limit: int) -> list[ResultRow]:
    """Load the results that match a condition, newest first."""
    newest = select(ResultRow).where(which).order_by(ResultRow.created.desc(), ResultRow.id)
    return list(db.scalars(newest.limit(limit)))


@dataclass(frozen=True, slots=True)
class FileTable:
    """The files of results or releases in one database table."""

    table: Table
    owner: str  # The name of the id column

    def save(self, db: Session, owner: str, files: Mapping[str, bytes]) -> int:
        """Insert files of a result or release; return their compressed size in bytes."""
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
        """Return the name, SHA-256 and uncompressed size of each file of a result or release."""
        columns = self.table.c
        own = select(columns.name, columns.sha256, columns.size).where(columns[self.owner] == owner)
        return db.execute(own.order_by(columns.name)).all()

    def all(
        self, db: Session, owner: str, names: Collection[str] | None = None
    ) -> dict[str, bytes]:
        """Return the bytes of all files, or of `names`, by name; deleted files are empty."""
        columns = self.table.c
        query = select(columns.name, columns.content).where(columns[self.owner] == owner)
        if names is not None:
            query = query.where(columns.name.in_(names))
        files = db.execute(query.order_by(columns.name))
        return {name: zlib.decompress(content) if content else b"" for name, content in files}

    def read(self, db: Session, owner: str, name: str) -> bytes | None:
        """Return the bytes of a file, or None if it does not exist or was deleted."""
        columns = self.table.c
        where = (columns[self.owner] == owner, columns.name == name)
        content = db.scalar(select(columns.content).where(*where))
        return zlib.decompress(content) if content else None


RESULT_FILES = FileTable(result_files, "result_id")
RELEASE_FILES = FileTable(release_files, "release_id")


@dataclass(frozen=True, slots=True)
class ResultView:
    """A result as one person may see it."""

    row: ResultRow
    own: bool  # Whether the person's own job produced it, so that they may release it
    files: Sequence[Any]
    later: ResultRow | None  # A visible result of the same inputs by a later decoder version


@dataclass(frozen=True, slots=True, kw_only=True)
class Results(Resources[ResultRow]):
    """The operations on results, each of which checks the person's role and access."""

    model = ResultRow
    visible = visible_results
    act = Act.READ
    order = (ResultRow.created.desc(), ResultRow.id)

    def view(self, person: Person, result_id: str) -> ResultView:
        """Return a result with its files; only its owners see the files with all candidates.

        Raises the errors of `get`."""
        require(person, Act.READ)
        with self.database.reading() as db:
            row = self.one(db, person, result_id)
            is_own = self._is_own(db, person, result_id)
            files = RESULT_FILES.list(db, result_id)
            superseding = visible_results(person) & (ResultRow.supersedes == result_id)
            later = load_results(db, superseding, 1)
        return ResultView(
            row=row,
            own=is_own,
            files=[file for file in files if is_own or not is_list(file.name)],
            later=later[0] if later else None,
        )

    def _is_own(self, db: Session, person: Person, result_id: str) -> bool:
        which = own_results(person) & (ResultRow.id == result_id)
        return bool(load_results(db, which, 1))

    def file(self, person: Person, result_id: str, name: str) -> bytes:
        """Return the bytes of a file, and audit the read. Raises the errors of `get`."""
        self.get(person, result_id)
        with self.database.reading() as db:
            hidden = is_list(name) and not self._is_own(db, person, result_id)
            content = None if hidden else RESULT_FILES.read(db, result_id, name)
        if content is None:
            raise NotFoundError(
                f"result {result_id} has no file {name[:70]!a}; "
                f"GET /v1/results/{result_id} names them"
            )
        with self.database.writing() as db:
            self.access.note(db, person, "read-result", result=result_id, file=name)
        return content

    def release(self, person: Person, result_id: str, released: bool) -> ResultRow:
        """Show a result of one's own to every viewer, or take back one's own release.

        Raises the errors of `get`, and RoleError if another person released it."""
        require(person, Act.ANALYZE)
        with self.database.writing() as db:
            row = visible_row(db, ResultRow, own_results(person), result_id)
            unshared = decoder_of(row.kind).unshared
            if released and unshared:
                raise RequestError(unshared)
            if row.released == released:
                return row
            if not may_take_back(person, row):
                raise RoleError(
                    "another person released this result; only they and admins can hide it again"
                )
            row.released, row.released_by = released, person.id if released else None
            self.access.note(db, person, "release-result", result=result_id, released=released)
            return row

    def give_up(self, person: Person, result_id: str) -> bool:
        """Remove a result from its holder, and delete it if no one holds it.

        An admin who does not hold the result removes it from everyone.

        Returns:
            Whether the result was deleted.

        Raises:
            RequestError: The result is released. The errors of `get` are raised, too.
        """
        require(person, Act.ANALYZE)
        with self.database.writing() as db:
            row = visible_row(db, ResultRow, own_results(person), result_id)
            if row.released:
                raise RequestError("the result is released: hide it from viewers first")
            if not give_up(db, result_id, person.id):
                db.execute(delete(result_readers).where(result_readers.c.result_id == result_id))
            self.access.note(db, person, "give-up-result", result=result_id)
            return bool(delete_unheld(db, result_id))


def may_take_back(person: Person, row: ResultRow) -> bool:
    """Return whether a person may take back a result's release: their own, or any if an admin."""
    return person.is_admin or row.released_by in (None, person.id)


def is_list(name: str) -> bool:
    """Return whether a file contains the whole list of candidates, which is sensitive."""
    return name.startswith("candidates.")


def shown_result(row: ResultRow, person: Person) -> dict[str, Any]:
    """Return the fields of a result that a person may see in lists."""
    names = "id operation kind metric params_id first_day last_day version supersedes released"
    public = shown(row, f"{names} created")
    return public | {"summary": json.loads(row.summary), "manifest": shown_manifest(row, person)}


def shown_manifest(row: ResultRow, person: Person) -> dict[str, Any]:
    """Return a result's manifest; for viewers, without the lists and options of its job."""
    manifest: dict[str, Any] = json.loads(row.manifest)
    if not person.may(Act.ANALYZE):
        manifest.pop("spec", None)
    return manifest
