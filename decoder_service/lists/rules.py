"""Lists of candidates, weights, known flows and areas, which are named and versioned.

Their content is read, validated and stored in a canonical form."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import StringConstraints
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from decoder.candidates.files import read_weights
from decoder.candidates.lists import Candidates
from decoder.errors import CandidatesError, CountsError, DecodeError
from decoder.formats.density_inputs import (
    flow_counts_csv,
    outlines_json,
    read_flow_counts,
    read_outlines,
)
from decoder_service.jobs.specs import Name, Note, StrictModel
from decoder_service.people.access import Resources
from decoder_service.people.permissions import (
    Act,
    Person,
    aggregate_bytes_of,
    list_bytes_of,
    own_rows,
    require,
    visible_aggregates,
    visible_lists,
)
from decoder_service.shell.database import insert_once, save, visible_row
from decoder_service.shell.errors import QuotaError
from decoder_service.shell.models import (
    LIVE,
    PRIVATE,
    SHARED,
    AggregateRow,
    JobRow,
    ListKind,
    ListRow,
    ListVersionRow,
    ResultRow,
    aggregate_readers,
    list_contents,
)
from decoder_service.worker.process_limits import Reader
from rappor_core.aggregate import Aggregate
from rappor_core.errors import AggregateError, MetricsFileError, ParameterError
from rappor_server.errors import ConflictError, NotFoundError, RequestError

_GZIP = b"\x1f\x8b"
_ENDS = ("\n", "\r")
_FIXED = {  # kinds with fixed columns
    ListKind.WEIGHTS: "weights have two columns, value and weight",
    ListKind.FLOWS: "known flows have columns origin, destination and count",
}
Read = TypeVar("Read")


@dataclass(frozen=True)
class ListFile:
    """The file format in which a kind of list is downloaded."""

    stem: str
    suffix: str
    media_type: str
    columns: int = 0  # The number of columns of a CSV; 0 for other formats


FILES = {
    ListKind.CANDIDATES: ListFile("list", "txt", "text/plain; charset=utf-8"),
    ListKind.WEIGHTS: ListFile("weights", "csv", "text/csv; charset=utf-8", 2),
    ListKind.FLOWS: ListFile("flows", "csv", "text/csv; charset=utf-8", 3),
    ListKind.AREAS: ListFile("areas", "geojson", "application/geo+json"),
}


def content_of(
    content: bytes, kind: ListKind, suffix: str, column: str | None
) -> tuple[bytes, int]:
    """Return the content in its stored form, and its number of distinct values.

    Candidates are stored one per line, in order; weights as `Weights.to_csv` and known flows as
    `flow_counts_csv`, so that the order does not matter; areas as `outlines_json`, in order.

    Args:
        content: The file.
        kind: The kind of list.
        suffix: The format of candidates, txt (one value per line) or csv; other kinds have one
            format.
        column: The column of a table of candidates; for areas, the property with their names,
            "name" if None.

    Raises:
        RequestError, CandidatesError, CountsError, DecodeError.
    """
    if content.startswith(_GZIP):  # so that the size of a file bounds its memory
        raise RequestError("the list is compressed with gzip; send it uncompressed")
    of = _FIXED.get(kind)
    if of is not None and column is not None:
        raise RequestError(f"{of}; name none")
    if kind == ListKind.AREAS:
        areas = _read(content, "geojson", lambda path: read_outlines(path, column or "name"))
        return outlines_json(areas).encode("utf-8", "surrogatepass"), len(areas)
    if kind == ListKind.FLOWS:
        flows = _read(content, "csv", read_flow_counts)
        return flow_counts_csv(flows).encode(), len(flows)
    if kind == ListKind.WEIGHTS:
        weights = _read(content, "csv", read_weights)
        if not weights.of:
            raise RequestError("no value has a weight; give one value and weight per line")
        if any(end in value for value in weights.of for end in _ENDS):
            raise RequestError("a value contains a line break, which candidates cannot have")
        return weights.to_csv().encode(), len(weights.of)
    values = _read(content, suffix, lambda path: Candidates.from_file(path, column)).values
    if any(b"\n" in value or b"\r" in value for value in values):
        raise RequestError("a value contains a line break; a list has one value per line")
    return b"".join(value + b"\n" for value in values), len(values)


def _read(content: bytes, suffix: str, read: Callable[[Path], Read]) -> Read:
    with tempfile.TemporaryDirectory(prefix="rappor-list-") as folder:
        path = Path(folder) / f"list.{suffix}"
        path.write_bytes(content)
        try:
            return read(path)
        except (CandidatesError, CountsError, DecodeError) as error:
            raise type(error)(str(error).replace(f"{path}: ", "the list: ")) from error


class NewList(StrictModel):
    """The request for a list."""

    name: Name
    source: Note = ""  # Its origin, as text
    format: Literal["txt", "csv"] = "txt"  # Of candidates: txt (one value per line) or csv
    # The column of a table; for areas, the name property
    column: Annotated[str, StringConstraints(max_length=1000)] | None = None
    shared: bool = False  # Whether other analysts may see it
    kind: ListKind = ListKind.CANDIDATES  # Cannot be changed later


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists(Resources[ListRow]):
    """Operations on lists, each of which checks the person's role and shows only visible lists."""

    model = ListRow
    visible = visible_lists
    order = (ListRow.name, ListRow.created)
    reader: Reader

    def content(self, person: Person, list_id: str, number: int | None = None) -> bytes:
        """Return the stored content of a version, by default the latest, and audit the read.

        Raises RoleError, NotFoundError."""
        version = self.get(person, list_id).version(number)
        with self.database.writing() as db:
            content = load_content(db, version.sha256)
            self.access.note(db, person, "read-list", list=list_id, version=version.number)
        if content is None:
            raise NotFoundError(f"list {list_id} was deleted just now")
        return content

    def create(self, person: Person, spec: NewList, content: bytes) -> ListRow:
        """Store a new list.

        Args:
            person: The owner.
            spec: The name, which must be new among the owner's lists, and the kind.
            content: A file of values, weights, known flows, or areas.

        Raises:
            RoleError, RequestError, ConflictError, QuotaError, CandidatesError, CountsError,
                DecodeError.
        """
        require(person, Act.ANALYZE)
        choices = (content, spec.kind, spec.format, spec.column)
        values, entries = self.reader.read(content_of, *choices)
        name = spec.name
        row = ListRow(
            id=self.new_id(),
            name=name,
            owner=person.id,
            visibility=SHARED if spec.shared else PRIVATE,
            source=spec.source,
            created=self.now(),
            kind=spec.kind,
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
        """Store a new version of one's own list, of the same kind, unless the content is unchanged.

        Raises RoleError, NotFoundError, RequestError, QuotaError, CandidatesError."""
        require(person, Act.ANALYZE)
        with self.database.reading() as db:
            kind = ListKind(self._own(db, person, list_id).kind)
        values, entries = self.reader.read(content_of, content, kind, suffix, column)
        with self.database.writing() as db:
            latest = self._own(db, person, list_id).latest
            if latest.sha256 == sha256(values).hexdigest():
                return latest
            saved = self._save(db, person, list_id, latest.number + 1, values, entries)
            self.access.note(db, person, "add-list-version", list=list_id, version=saved.number)
            return saved

    def share(self, person: Person, list_id: str, shared: bool) -> None:
        """Share one's own list with analysts, or stop sharing it. Raises the errors of `get`."""
        require(person, Act.ANALYZE)
        with self.database.writing() as db:
            self._own(db, person, list_id).visibility = SHARED if shared else PRIVATE
            self.access.note(db, person, "share-list", list=list_id, shared=shared)

    def delete(self, person: Person, list_id: str) -> None:
        """Delete one's own list and the contents that no other list has; results keep its digest.

        Raises the errors of `get`."""
        require(person, Act.ANALYZE)
        with self.database.writing() as db:
            self._own(db, person, list_id)
            db.execute(delete(ListVersionRow).where(ListVersionRow.list_id == list_id))
            db.execute(delete(ListRow).where(ListRow.id == list_id))
            used = select(ListVersionRow.sha256)
            db.execute(delete(list_contents).where(list_contents.c.sha256.not_in(used)))
            self.access.note(db, person, "delete-list", list=list_id)

    def _own(self, db: Session, person: Person, list_id: str) -> ListRow:
        return visible_row(db, ListRow, own_rows(ListRow.owner)(person), list_id)

    def _save(
        self, db: Session, person: Person, list_id: str, number: int, values: bytes, entries: int
    ) -> ListVersionRow:
        size = list_bytes_of(db, person.id) + len(values)
        most = self.settings.max_stored_bytes_of_person
        if size > most:
            raise QuotaError(f"your lists would hold {size:,} bytes, above {most:,}; delete one")
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
    """Return the stored content whose SHA-256 is `sha`; None if it does not exist."""
    return db.scalar(select(list_contents.c.content).where(list_contents.c.sha256 == sha))


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregates(Resources[Any]):
    """Operations on uploaded aggregates (by digest), each of which checks the person's role."""

    model = AggregateRow
    visible = visible_aggregates
    order = (AggregateRow.created.desc(),)
    reader: Reader

    def upload(self, person: Person, content: bytes) -> AggregateRow:
        """Store an aggregate file. Raises RoleError, QuotaError, and RapporError if invalid."""
        require(person, Act.ANALYZE)
        row = self.reader.read(described, content, self.now())
        with self.database.writing() as db:
            size = aggregate_bytes_of(db, person.id) + len(row.content)
            most = self.settings.max_stored_bytes_of_person
            if size > most:
                raise QuotaError(f"your aggregates would hold {size:,} bytes, above {most:,}")
            save_aggregate(db, row, person.id)
            self.access.note(db, person, "upload-aggregate", sha256=row.sha256)
        return row


def save_aggregate(db: Session, row: AggregateRow, person: str) -> None:
    """Insert an aggregate unless it exists, and let a person read it."""
    if db.get(AggregateRow, row.sha256) is None:
        save(db, row)
    insert_once(db, aggregate_readers, {"sha256": row.sha256, "person_id": person})


def delete_unused_aggregates(db: Session, before: float) -> int:
    """Delete old aggregates that no result and no live job uses; return their number.

    Only aggregates from before the given time are deleted. On SQLite, the transaction blocks other
    submissions; on PostgreSQL, a job that is queued at the same time fails with a reason."""
    unused = set(db.scalars(select(AggregateRow.sha256).where(AggregateRow.created < before)))
    if not unused:
        return 0
    for manifest in db.scalars(select(ResultRow.manifest)):
        for shas in json.loads(manifest).get("inputs", {}).get("aggregates", []):
            unused.difference_update(shas)
    for spec in db.scalars(select(JobRow.spec).where(JobRow.state.in_(LIVE))):
        job = json.loads(spec)
        for source in (job.get("source"), job.get("before")):
            unused.difference_update((source or {}).get("aggregates", []))
    for sha in sorted(unused):
        db.execute(delete(aggregate_readers).where(aggregate_readers.c.sha256 == sha))
        db.execute(delete(AggregateRow).where(AggregateRow.sha256 == sha))
    return len(unused)


def described(content: bytes | str, at: float) -> AggregateRow:
    """Return the table row for an aggregate file, whose text is rewritten in canonical form.

    Raises AggregateError, WireFormatError."""
    try:
        aggregate = Aggregate.from_json(content)
    except (ParameterError, MetricsFileError) as error:  # an error in its parameters or definition
        raise AggregateError(str(error)) from error
    text = aggregate.to_json().encode()
    return AggregateRow(
        sha256=sha256(text).hexdigest(),
        metric=aggregate.metric,
        params_id=aggregate.params_id,
        first_day=aggregate.first_day.isoformat() if aggregate.first_day else None,
        last_day=aggregate.last_day.isoformat() if aggregate.last_day else None,
        num_reports=aggregate.num_reports,
        content=text,
        created=at,
        kind=str(aggregate.definition["kind"])[:32] if "kind" in aggregate.definition else None,
    )
