"""Statements on the tables of keys and of the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from collector.store.models import audit, keys


@dataclass(frozen=True, slots=True)
class CollectorAuditRow:
    """`at`: UTC, to the second.  `actor`: a key id, or `command-line`.  `detail`: JSON."""

    at: str
    actor: str
    act: str
    detail: str


def load_keys(connection: Connection) -> Sequence[Row[Any]]:
    """Load the rows of all keys, revoked ones too, oldest first."""
    return connection.execute(select(keys).order_by(keys.c.created, keys.c.key_id)).all()


def save_key(connection: Connection, **values: str | int | bytes) -> None:
    """Insert a key. values: of its columns."""
    connection.execute(insert(keys).values(values))


def revoke_key(connection: Connection, key_id: str, day: int) -> bool:
    """Revoke a key. Return False if no valid key has this id."""
    live = (keys.c.key_id == key_id, keys.c.revoked.is_(None))
    return connection.execute(update(keys).where(*live).values(revoked=day)).rowcount == 1


def write_audit(connection: Connection, row: CollectorAuditRow) -> None:
    """Append an entry to the audit log."""
    connection.execute(insert(audit).values(asdict(row)))


def read_audit(connection: Connection, limit: int) -> list[CollectorAuditRow]:
    """The latest entries, newest first."""
    columns = [audit.c[name] for name in CollectorAuditRow.__slots__]
    rows = connection.execute(select(*columns).order_by(audit.c.id.desc()).limit(limit))
    return [CollectorAuditRow(*row) for row in rows]
