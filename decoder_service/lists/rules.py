"""Lists of candidates, weights, known flows and areas: named, versioned, stored by content."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Literal

from pydantic import StringConstraints
from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from decoder_service.jobs.specs import Name, Note, StrictModel
from decoder_service.lists.contents import content_of
from decoder_service.people.access import Resources
from decoder_service.people.permissions import Act, Person, own_lists, require, visible_lists
from decoder_service.shell.database import insert_once, save, total, visible_row
from decoder_service.shell.errors import ConflictError, NotFoundError, QuotaError
from decoder_service.shell.models import (
    PRIVATE,
    SHARED,
    ListKind,
    ListRow,
    ListVersionRow,
    list_contents,
)
from decoder_service.worker.uploads import Reader


class NewList(StrictModel):
    """The request for a list.

    source: where it comes from, in words.  format: of a file of candidates: txt (a value a line)
    or csv; others have one form.  column: of a table; of areas the property that names them.
    shared: whether other analysts see it.  kind: what it holds, for good.
    """

    name: Name
    source: Note = ""
    format: Literal["txt", "csv"] = "txt"
    column: Annotated[str, StringConstraints(max_length=1000)] | None = None
    shared: bool = False
    kind: ListKind = ListKind.CANDIDATES


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists(Resources[ListRow]):
    """Operations on lists. Each checks the person's role, and shows only what the person may
    see."""

    model = ListRow
    visible = visible_lists
    order = (ListRow.name, ListRow.created)
    reader: Reader

    def content(self, person: Person, list_id: str, number: int | None = None) -> bytes:
        """The values of a version, one a line, the latest by default; the read is audited.

        Of weights `value,weight` a line, of known flows `origin,destination,count`, of areas
        GeoJSON.

        Raises RoleError, NotFoundError.
        """
        version = self.version(person, list_id, number)
        with self.database.writing() as db:
            content = load_content(db, version.sha256)
            self.access.note(db, person, "read-list", list=list_id, version=version.number)
        if content is None:
            raise NotFoundError(f"list {list_id} was deleted just now")
        return content

    def version(self, person: Person, list_id: str, number: int | None = None) -> ListVersionRow:
        """A version of a list, the latest by default. Raises RoleError, NotFoundError."""
        for version in self.get(person, list_id).versions:
            if number in (None, version.number):
                return version
        raise NotFoundError(f"list {list_id} has no version {number}; its page has all")

    def create(self, person: Person, asked: NewList, content: bytes) -> ListRow:
        """Store a new list.

        Args:
            person: its owner.
            asked: its name, new among the owner's lists, and what it holds.
            content: a file of values, of values with weights, of known flows, or of areas.

        Raises:
            RoleError, RequestError, ConflictError, QuotaError, CandidatesError, CountsError,
            DecodeError.
        """
        require(person, Act.ANALYSE)
        values, entries = self._read(content, asked.kind, asked.format, asked.column)
        name = asked.name
        row = ListRow(
            id=self.new_id(),
            name=name,
            owner=person.id,
            visibility=SHARED if asked.shared else PRIVATE,
            source=asked.source,
            created=self.now(),
            kind=asked.kind,
        )
        with self.database.writing() as db:
            if db.scalar(select(ListRow).where(ListRow.owner == person.id, ListRow.name == name)):
                raise ConflictError(f"you have a list {name!a}; add a version to it", name=name)
            save(db, row)
            self._save(db, person, row.id, 1, values, entries)
            self.access.note(db, person, "create-list", list=row.id, name=name)
        return self.get(person, row.id)

    def add_version(
        self,
        person: Person,
        list_id: str,
        content: bytes,
        *,
        suffix: str = "txt",
        column: str | None = None,
    ) -> ListVersionRow:
        """Store a new version of an own list, of its kind; the same content gives no new one.

        Raises RoleError, NotFoundError, RequestError, QuotaError, CandidatesError.
        """
        require(person, Act.ANALYSE)
        with self.database.reading() as db:
            kind = ListKind(self._own(db, person, list_id).kind)
        values, entries = self._read(content, kind, suffix, column)
        with self.database.writing() as db:
            latest = self._own(db, person, list_id).latest
            if latest.sha256 == sha256(values).hexdigest():
                return latest
            saved = self._save(db, person, list_id, latest.number + 1, values, entries)
            self.access.note(db, person, "add-list-version", list=list_id, version=saved.number)
            return saved

    def share(self, person: Person, list_id: str, shared: bool) -> None:
        """Share an own list with other analysts, or stop sharing it. Raises as `get`."""
        require(person, Act.ANALYSE)
        with self.database.writing() as db:
            self._own(db, person, list_id).visibility = SHARED if shared else PRIVATE
            self.access.note(db, person, "share-list", list=list_id, shared=shared)

    def delete(self, person: Person, list_id: str) -> None:
        """Delete an own list and contents that no other list has; results keep its digest.
        Raises as `get`."""
        require(person, Act.ANALYSE)
        with self.database.writing() as db:
            self._own(db, person, list_id)
            db.execute(delete(ListVersionRow).where(ListVersionRow.list_id == list_id))
            db.execute(delete(ListRow).where(ListRow.id == list_id))
            kept = select(ListVersionRow.sha256)
            db.execute(delete(list_contents).where(list_contents.c.sha256.not_in(kept)))
            self.access.note(db, person, "delete-list", list=list_id)

    def _read(
        self, content: bytes, kind: ListKind, suffix: str, column: str | None
    ) -> tuple[bytes, int]:
        most = self.settings.max_list_entries
        return self.reader.read(content_of, content, kind, suffix, column, most)

    def _own(self, db: Session, person: Person, list_id: str) -> ListRow:
        return visible_row(db, ListRow, own_lists(person), list_id)

    def _save(
        self, db: Session, person: Person, list_id: str, number: int, values: bytes, entries: int
    ) -> ListVersionRow:
        held = list_bytes_of(db, person.id) + len(values)
        most = self.settings.max_stored_bytes_of_person
        if held > most:
            raise QuotaError(f"your lists would hold {held:,} bytes, above {most:,}; delete one")
        row = ListVersionRow(
            list_id=list_id,
            number=number,
            sha256=sha256(values).hexdigest(),
            entries=entries,
            size=len(values),
            created=self.now(),
        )
        insert_once(db, list_contents, {"sha256": row.sha256}, content=values)
        save(db, row)
        return row


def load_content(db: Session, sha: str) -> bytes | None:
    """The bytes of a digest: values, one a line."""
    return db.scalar(select(list_contents.c.content).where(list_contents.c.sha256 == sha))


def list_bytes_of(db: Session, owner: str) -> int:
    """Number of bytes of the versions of a person's lists."""
    versions = select(func.sum(ListVersionRow.size)).join(
        ListRow, ListRow.id == ListVersionRow.list_id
    )
    return total(db, versions.where(ListRow.owner == owner))
