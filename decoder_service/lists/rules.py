"""Lists of candidates, weights, known flows and areas: named, versioned, stored by content."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Literal

from pydantic import StringConstraints
from sqlalchemy.orm import Session

from decoder_service.jobs.specs import Name, Note, StrictModel
from decoder_service.lists import rows
from decoder_service.lists.contents import content_of
from decoder_service.lists.rows import PRIVATE, SHARED, ListKind
from decoder_service.people.access import AuditedOperations
from decoder_service.people.permissions import Act, Person, own_lists, require, visible_lists
from decoder_service.shell.database import save, visible_row
from decoder_service.shell.errors import ConflictError, NotFoundError, QuotaError
from decoder_service.shell.models import ListRow, ListVersionRow
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
class Lists(AuditedOperations):
    """Operations on lists. Each checks the person's role, and shows only what the person may
    see."""

    reader: Reader

    def all(self, person: Person) -> list[ListRow]:
        """A person's own and the shared lists with their latest versions, by name. Raises
        RoleError."""
        require(person, Act.ANALYSE)
        with self.database.reading() as db:
            return rows.load_lists(db, visible_lists(person))

    def get(self, person: Person, list_id: str) -> ListRow:
        """A list with its versions. Raises RoleError, NotFoundError."""
        require(person, Act.ANALYSE)
        with self.database.reading() as db:
            return visible_row(db, ListRow, visible_lists(person), list_id)

    def content(self, person: Person, list_id: str, number: int | None = None) -> bytes:
        """The values of a version, one a line, the latest by default; the read is audited.

        Of weights `value,weight` a line, of known flows `origin,destination,count`, of areas
        GeoJSON.

        Raises RoleError, NotFoundError.
        """
        version = self.version(person, list_id, number)
        with self.database.writing() as db:
            found = rows.load_content(db, version.sha256)
            self.access.note(db, person, "read-list", list=list_id, version=version.number)
        if found is None:
            raise NotFoundError(f"list {list_id} was deleted just now")
        return found

    def version(self, person: Person, list_id: str, number: int | None = None) -> ListVersionRow:
        """A version of a list, the latest by default. Raises RoleError, NotFoundError."""
        versions = self.get(person, list_id).versions
        found = [one for one in versions if number in (None, one.number)]
        if not found:
            raise NotFoundError(f"list {list_id} has no version {number}; its page has all")
        return found[0]

    def create(self, person: Person, asked: NewList, content: bytes) -> ListRow:
        """Store a new list.

        Args:
            person: its owner.
            asked: its name, new among the owner's lists, and what it holds.
            content: a file of values, of values with weights, of known flows, or of areas.

        Returns:
            The list.

        Raises:
            RoleError, RequestError, ConflictError, QuotaError, CandidatesError, CountsError,
            DecodeError.
        """
        require(person, Act.ANALYSE)
        values, entries = self._read(content, asked.kind, asked.format, asked.column)
        list_id, name = self.new_id(), asked.name
        row = ListRow(
            id=list_id,
            name=name,
            owner=person.id,
            visibility=SHARED if asked.shared else PRIVATE,
            source=asked.source,
            created=self.now(),
            kind=asked.kind,
        )
        with self.database.writing() as db:
            mine = (ListRow.owner == person.id) & (ListRow.name == name)
            if rows.load_lists(db, mine):
                raise ConflictError(f"you have a list {name!a}; add a version to it", name=name)
            save(db, row)
            self._save(db, person, list_id, 1, values, entries)
            self.access.note(db, person, "create-list", list=list_id, name=name)
        return self.get(person, list_id)

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
            row = self._own(db, person, list_id)
            if row.latest.sha256 == sha256(values).hexdigest():
                return row.latest
            saved = self._save(db, person, list_id, row.latest.number + 1, values, entries)
            self.access.note(db, person, "add-list-version", list=list_id, version=saved.number)
            return saved

    def share(self, person: Person, list_id: str, shared: bool) -> None:
        """Share an own list with other analysts, or stop sharing it. Raises as `get`."""
        require(person, Act.ANALYSE)
        with self.database.writing() as db:
            self._own(db, person, list_id).visibility = SHARED if shared else PRIVATE
            self.access.note(db, person, "share-list", list=list_id, shared=shared)

    def delete(self, person: Person, list_id: str) -> None:
        """Delete an own list and its contents; results keep its digest. Raises as `get`."""
        require(person, Act.ANALYSE)
        with self.database.writing() as db:
            self._own(db, person, list_id)
            rows.delete_list(db, list_id)
            self.access.note(db, person, "delete-list", list=list_id)

    def _read(
        self, content: bytes, kind: ListKind, suffix: str, column: str | None
    ) -> tuple[bytes, int]:
        return self.reader.read(
            content_of, content, kind, suffix, column, self.settings.max_list_entries
        )

    def _own(self, db: Session, person: Person, list_id: str) -> ListRow:
        return visible_row(db, ListRow, own_lists(person), list_id)

    def _save(
        self,
        db: Session,
        person: Person,
        list_id: str,
        number: int,
        values: bytes,
        entries: int,
    ) -> ListVersionRow:
        held = rows.bytes_of_owner(db, person.id) + len(values)
        most = self.settings.max_stored_bytes_of_person
        if held > most:
            raise QuotaError(f"your lists would hold {held:,} bytes, above {most:,}; delete one")
        at = self.now()
        name = sha256(values).hexdigest()
        row = ListVersionRow(
            list_id=list_id,
            number=number,
            sha256=name,
            entries=entries,
            size=len(values),
            created=at,
        )
        rows.save_version(db, row, values)
        return row
