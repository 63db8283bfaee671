"""Rows of keys and of the audit log, which the databases of both servers have."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import Column, Connection, LargeBinary, String, Table, insert, update
from sqlalchemy.types import TypeEngine


def key_columns(moment: type[TypeEngine[Any]]) -> list[Column[Any]]:
    """The columns that the table of keys has in both services, besides the id and the scope or
    role. moment: column type of times."""
    return [
        Column("label", String(200), nullable=False),
        Column("secret_hash", LargeBinary(32), nullable=False),
        Column("created", moment, nullable=False),
        Column("revoked", moment),
    ]


def insert_record(
    connection: Connection, table: Table, record: Any, leave_out: Collection[str] = ()
) -> None:
    """Insert a dataclass with slots; its fields are columns, but for those that are left out."""
    values = {name: getattr(record, name) for name in record.__slots__ if name not in leave_out}
    connection.execute(insert(table).values(values))


def revoke_row(connection: Connection, keys: Table, key_id: str, at: float) -> bool:
    """Revoke a key. Return False if no valid key has this id.

    at: in the unit of the table's times.
    """
    live = (keys.c.key_id == key_id, keys.c.revoked.is_(None))
    return connection.execute(update(keys).where(*live).values(revoked=at)).rowcount == 1
