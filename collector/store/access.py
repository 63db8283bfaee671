"""Statements on the tables of keys and of the audit log."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, select

from collector.store.models import audit, keys
from rappor_server.rows import insert_record, revoke_row


@dataclass(frozen=True, slots=True)
class CollectorKeyRow:
    """A stored key, without its secret. `created`, `revoked`: days; `secret_hash`: SHA-256."""

    key_id: str
    scope: str
    label: str
    secret_hash: bytes
    created: int
    revoked: int | None = None


@dataclass(frozen=True, slots=True)
class CollectorAuditRow:
    """`at`: UTC, to the second.  `actor`: a key id, or `command-line`.  `detail`: JSON."""

    at: str
    actor: str
    act: str
    detail: str


def load_keys(connection: Connection) -> list[CollectorKeyRow]:
    """Load all keys, revoked ones too, oldest first."""
    columns = [keys.c[name] for name in CollectorKeyRow.__slots__]
    rows = connection.execute(select(*columns).order_by(keys.c.created, keys.c.key_id))
    return [CollectorKeyRow(row[0], row[1], row[2], bytes(row[3]), row[4], row[5]) for row in rows]


def save_key(connection: Connection, row: CollectorKeyRow) -> None:
    """Insert a key."""
    insert_record(connection, keys, row)


def revoke_key(connection: Connection, key_id: str, day: int) -> bool:
    """Revoke a key. Return False if no valid key has this id."""
    return revoke_row(connection, keys, key_id, day)


def write_audit(connection: Connection, row: CollectorAuditRow) -> None:
    """Append an entry to the audit log."""
    insert_record(connection, audit, row)


def read_audit(connection: Connection, limit: int) -> list[CollectorAuditRow]:
    """The latest entries, newest first."""
    columns = [audit.c[name] for name in CollectorAuditRow.__slots__]
    rows = connection.execute(select(*columns).order_by(audit.c.id.desc()).limit(limit))
    return [CollectorAuditRow(*row) for row in rows]
