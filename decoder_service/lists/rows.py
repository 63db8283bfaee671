"""Statements on lists of candidates, weights, known flows or areas, their versions and contents."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.orm import Session

from decoder_service.shell.database import insert_once, save
from decoder_service.shell.models import ListRow, ListVersionRow, list_contents

SHARED = "shared"
PRIVATE = "private"


class ListKind(StrEnum):
    """What a list holds. candidates: a value a line.  weights: CSV of `value,weight`.  flows: CSV
    of `origin,destination,count`, a known matrix.  areas: GeoJSON of named polygons."""

    CANDIDATES = "candidates"
    WEIGHTS = "weights"
    FLOWS = "flows"
    AREAS = "areas"


def save_version(db: Session, row: ListVersionRow, content: bytes) -> None:
    """Insert a version, and its content unless that is there."""
    insert_once(db, list_contents, {"sha256": row.sha256}, content=content)
    save(db, row)


def load_lists(db: Session, visible: ColumnElement[bool], limit: int = 1000) -> list[ListRow]:
    """Lists with their versions, by name."""
    by_name = select(ListRow).where(visible).order_by(ListRow.name, ListRow.created)
    return list(db.scalars(by_name.limit(limit)))


def load_content(db: Session, sha256: str) -> bytes | None:
    """The bytes of a digest: values, one a line."""
    return db.scalar(select(list_contents.c.content).where(list_contents.c.sha256 == sha256))


def bytes_of_owner(db: Session, owner: str) -> int:
    """Number of bytes of the versions of a person's lists."""
    size = select(func.coalesce(func.sum(ListVersionRow.size), 0)).join(
        ListRow, ListRow.id == ListVersionRow.list_id
    )
    return int(db.execute(size.where(ListRow.owner == owner)).scalar_one())


def delete_list(db: Session, list_id: str) -> None:
    """Delete a list, its versions, and contents that no other version has."""
    db.execute(delete(ListVersionRow).where(ListVersionRow.list_id == list_id))
    db.execute(delete(ListRow).where(ListRow.id == list_id))
    kept = select(ListVersionRow.sha256)
    db.execute(delete(list_contents).where(list_contents.c.sha256.not_in(kept)))
