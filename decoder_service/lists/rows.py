"""Rows of lists of candidates, weights, known flows or areas: names, versions, contents."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update

from decoder_service.shell.models import list_contents, list_versions, lists, people

SHARED = "shared"
PRIVATE = "private"


class ListKind(StrEnum):
    """What a list holds. candidates: a value a line.  weights: CSV of `value,weight`.  flows: CSV
    of `origin,destination,count`, a known matrix.  areas: GeoJSON of named polygons."""

    CANDIDATES = "candidates"
    WEIGHTS = "weights"
    FLOWS = "flows"
    AREAS = "areas"


@dataclass(frozen=True, slots=True)
class ListRow:
    """A list with its latest version. `owner`: id of a person; `owner_name`: for people.

    entries: distinct values.  size: bytes.  kind: what it holds.
    """

    id: str
    name: str
    owner: str
    owner_name: str
    visibility: str
    source: str
    created: float
    version: int
    sha256: str
    entries: int
    size: int
    changed: float
    kind: str = ListKind.CANDIDATES


@dataclass(frozen=True, slots=True)
class ListVersionRow:
    """The database row of one version of a list."""

    list_id: str
    number: int
    sha256: str
    entries: int
    size: int
    created: float


_VERSION = [list_versions.c[name] for name in ListVersionRow.__slots__]


def save_list(connection: Connection, row: ListRow) -> None:
    """Insert a list, without a version."""
    names = ("id", "name", "owner", "visibility", "source", "created", "kind")
    connection.execute(insert(lists).values({name: getattr(row, name) for name in names}))


def save_version(connection: Connection, row: ListVersionRow, content: bytes) -> None:
    """Insert a version, and its content unless that is there."""
    there = select(list_contents.c.sha256).where(list_contents.c.sha256 == row.sha256)
    if connection.execute(there).first() is None:
        connection.execute(insert(list_contents).values(sha256=row.sha256, content=content))
    values = {name: getattr(row, name) for name in row.__slots__}
    connection.execute(insert(list_versions).values(values))


def set_visibility(connection: Connection, list_id: str, visibility: str) -> None:
    """Share a list with other analysts, or stop sharing it."""
    connection.execute(update(lists).where(lists.c.id == list_id).values(visibility=visibility))


def load_lists(
    connection: Connection, visible: ColumnElement[bool], limit: int = 1000
) -> list[ListRow]:
    """Lists with their latest version, by name."""
    latest = (
        select(list_versions.c.list_id, func.max(list_versions.c.number).label("number"))
        .group_by(list_versions.c.list_id)
        .subquery()
    )
    columns = (
        lists.c.id,
        lists.c.name,
        lists.c.owner,
        people.c.name.label("owner_name"),
        lists.c.visibility,
        lists.c.source,
        lists.c.created,
        list_versions.c.number,
        list_versions.c.sha256,
        list_versions.c.entries,
        list_versions.c.size,
        list_versions.c.created.label("changed"),
        lists.c.kind,
    )
    statement = (
        select(*columns)
        .join(people, people.c.id == lists.c.owner)
        .join(latest, latest.c.list_id == lists.c.id)
        .join(
            list_versions,
            (list_versions.c.list_id == lists.c.id) & (list_versions.c.number == latest.c.number),
        )
        .where(visible)
        .order_by(lists.c.name, lists.c.created)
        .limit(limit)
    )
    return [ListRow(*list(row)) for row in connection.execute(statement)]


def load_versions(connection: Connection, list_id: str) -> list[ListVersionRow]:
    """The versions of a list, newest first."""
    statement = select(*_VERSION).where(list_versions.c.list_id == list_id)
    rows = connection.execute(statement.order_by(list_versions.c.number.desc()))
    return [ListVersionRow(*row) for row in rows]


def load_content(connection: Connection, sha256: str) -> bytes | None:
    """The bytes of a digest: values, one a line."""
    statement = select(list_contents.c.content).where(list_contents.c.sha256 == sha256)
    found = connection.execute(statement).scalar()
    return None if found is None else bytes(found)


def bytes_of_owner(connection: Connection, owner: str) -> int:
    """Number of bytes of the versions of a person's lists."""
    statement = select(func.coalesce(func.sum(list_versions.c.size), 0)).join(lists)
    return int(connection.execute(statement.where(lists.c.owner == owner)).scalar_one())


def delete_list(connection: Connection, list_id: str) -> None:
    """Delete a list, its versions, and contents that no other version has."""
    connection.execute(delete(list_versions).where(list_versions.c.list_id == list_id))
    connection.execute(delete(lists).where(lists.c.id == list_id))
    kept = select(list_versions.c.sha256)
    connection.execute(delete(list_contents).where(list_contents.c.sha256.not_in(kept)))
