"""Rows about associations. What they count stands in the tables of counters and blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select, update

from collector.store.models import associations, linked_days


@dataclass(frozen=True, slots=True)
class AssociationRow:
    """One version of an association. `definition`: JSON text.  `position`: grows within a name."""

    name: str
    params_id: str
    position: int
    definition: str
    retired: bool


def load_associations(connection: Connection) -> list[AssociationRow]:
    """All versions of all associations, oldest first within a name."""
    columns = [associations.c[name] for name in AssociationRow.__slots__]
    statement = select(*columns).order_by(associations.c.name, associations.c.position)
    return [AssociationRow(*row) for row in connection.execute(statement)]


def save_association(connection: Connection, row: AssociationRow) -> None:
    """Insert a version, or replace its definition, position and state."""
    values = {name: getattr(row, name) for name in AssociationRow.__slots__}
    same = (associations.c.name == row.name, associations.c.params_id == row.params_id)
    if not connection.execute(update(associations).where(*same).values(values)).rowcount:
        connection.execute(insert(associations).values(values))


def remember_days(connection: Connection, block_id: int, day: int, cohorts: Sequence[int]) -> None:
    """Note in which cohorts a day of an unsealed block has linked reports."""
    rows = [{"block_id": block_id, "cohort": cohort, "day": day} for cohort in cohorts]
    if rows:
        connection.execute(insert(linked_days), rows)


def days_of_cohorts(connection: Connection, block_id: int) -> dict[int, set[int]]:
    """Those days of a block, by cohort."""
    columns = (linked_days.c.cohort, linked_days.c.day)
    found: dict[int, set[int]] = {}
    where = linked_days.c.block_id == block_id
    for cohort, day in connection.execute(select(*columns).where(where)):
        found.setdefault(cohort, set()).add(day)
    return found


def forget_days(connection: Connection, block_id: int) -> None:
    """Of a block that is sealed."""
    connection.execute(delete(linked_days).where(linked_days.c.block_id == block_id))
