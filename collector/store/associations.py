"""Rows about associations. What they count stands in the tables of counters and blocks."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, insert, select, update

from collector.store.models import associations


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
