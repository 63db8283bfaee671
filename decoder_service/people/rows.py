"""Database rows of people, keys, sessions, identities of a provider, and the audit log."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, delete, insert, select, true, update

from decoder_service.shell.models import audit, identities, keys, people, sessions
from rappor_server.rows import insert_record, revoke_row


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A stored key, without its secret. `name`: of its person. `secret_hash`: SHA-256."""

    key_id: str
    person_id: str
    name: str
    role: str
    label: str
    secret_hash: bytes
    created: float
    revoked: float | None = None


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session of a browser, with the name of its person."""

    token_hash: bytes
    person_id: str
    name: str
    role: str
    key_id: str | None
    created: float
    expires: float


@dataclass(frozen=True, slots=True)
class AuditRow:
    """`actor`: name of a person, or `command-line`.  `detail`: JSON."""

    at: float
    actor: str
    key_id: str
    act: str
    detail: str


_KEY = [
    keys.c.key_id,
    keys.c.person_id,
    people.c.name,
    keys.c.role,
    keys.c.label,
    keys.c.secret_hash,
    keys.c.created,
    keys.c.revoked,
]


def person_named(connection: Connection, name: str) -> str | None:
    """The id of a person."""
    return connection.execute(select(people.c.id).where(people.c.name == name)).scalar()


def name_of_person(connection: Connection, person_id: str) -> str | None:
    """The name of a person; None where there is none of that id."""
    return connection.execute(select(people.c.name).where(people.c.id == person_id)).scalar()


def save_person(connection: Connection, person_id: str, name: str, created: float) -> None:
    """Insert a person."""
    connection.execute(insert(people).values(id=person_id, name=name, created=created))


def load_key(connection: Connection, key_id: str) -> KeyRow | None:
    """Load a key, revoked or not."""
    row = connection.execute(select(*_KEY).join(people).where(keys.c.key_id == key_id)).first()
    return None if row is None else KeyRow(*row)


def load_keys(connection: Connection, person_id: str | None = None) -> list[KeyRow]:
    """Load all keys, or those of a person, revoked ones too, oldest first."""
    statement = select(*_KEY).join(people).order_by(keys.c.created, keys.c.key_id)
    if person_id is not None:
        statement = statement.where(keys.c.person_id == person_id)
    return [KeyRow(*row) for row in connection.execute(statement)]


def save_key(connection: Connection, row: KeyRow) -> None:
    """Insert a key of a person that is there."""
    insert_record(connection, keys, row, {"name"})


def revoke_key(connection: Connection, key_id: str, at: float) -> bool:
    """Revoke a key and end its sessions. Return False if no valid key has this id."""
    if not revoke_row(connection, keys, key_id, at):
        return False
    connection.execute(delete(sessions).where(sessions.c.key_id == key_id))
    return True


def save_session(connection: Connection, row: SessionRow) -> None:
    """Insert a session."""
    insert_record(connection, sessions, row, {"name"})


def load_session(connection: Connection, token_hash: bytes, at: float) -> SessionRow | None:
    """A session that is not over at a time."""
    columns = [
        sessions.c.token_hash,
        sessions.c.person_id,
        people.c.name,
        sessions.c.role,
        sessions.c.key_id,
        sessions.c.created,
        sessions.c.expires,
    ]
    holds = (sessions.c.token_hash == token_hash, sessions.c.expires > at)
    row = connection.execute(select(*columns).join(people).where(*holds)).first()
    return None if row is None else SessionRow(*row)


def end_session(connection: Connection, token_hash: bytes) -> None:
    """Delete a session."""
    connection.execute(delete(sessions).where(sessions.c.token_hash == token_hash))


def end_sessions_of_provider(
    connection: Connection, person_id: str, but_of_role: str | None = None
) -> None:
    """Delete a person's sessions through the provider, but for those of a role."""
    which = (sessions.c.person_id == person_id) & sessions.c.key_id.is_(None)
    if but_of_role is not None:
        which &= sessions.c.role != but_of_role
    connection.execute(delete(sessions).where(which))


def end_oldest_sessions(connection: Connection, person_id: str, most: int) -> None:
    """Delete all sessions of a person but the latest."""
    own = select(sessions.c.token_hash).where(sessions.c.person_id == person_id)
    latest = own.order_by(sessions.c.created.desc(), sessions.c.token_hash).limit(most)
    older = (sessions.c.person_id == person_id) & sessions.c.token_hash.not_in(latest)
    connection.execute(delete(sessions).where(older))


def end_old_sessions(connection: Connection, at: float) -> int:
    """Delete the sessions that are over; how many."""
    return connection.execute(delete(sessions).where(sessions.c.expires <= at)).rowcount


def write_audit(connection: Connection, row: AuditRow) -> None:
    """Append an entry to the audit log."""
    insert_record(connection, audit, row)


def read_audit(connection: Connection, limit: int, before: int | None = None) -> list[AuditRow]:
    """The latest entries, newest first."""
    columns = [audit.c[name] for name in AuditRow.__slots__]
    statement = select(*columns).order_by(audit.c.id.desc()).limit(limit)
    if before is not None:
        statement = statement.where(audit.c.id < before)
    return [AuditRow(*row) for row in connection.execute(statement)]


@dataclass(frozen=True, slots=True)
class IdentityRow:
    """A person as an identity provider knows them. `name`: of the person. role, seen: of the
    last sign-in.

    revoked: since when an admin keeps them out, or None.
    """

    issuer: str
    subject: str
    person_id: str
    role: str
    created: float
    seen: float
    revoked: float | None = None
    name: str = ""


_OWN = [name for name in IdentityRow.__slots__ if name != "name"]
_COLUMNS = [*(identities.c[name] for name in _OWN), people.c.name]


def load_identities(
    connection: Connection, which: ColumnElement[bool] | None = None
) -> list[IdentityRow]:
    """The people of the identity provider, those kept out too, by name."""
    statement = select(*_COLUMNS).join(people, people.c.id == identities.c.person_id)
    wanted = true() if which is None else which
    rows = connection.execute(statement.where(wanted).order_by(people.c.name))
    return [IdentityRow(*row) for row in rows]


def identity_of(connection: Connection, issuer: str, subject: str) -> IdentityRow | None:
    """The identity with this issuer and subject, or None."""
    which = (identities.c.issuer == issuer) & (identities.c.subject == subject)
    return next(iter(load_identities(connection, which)), None)


def save_identity(connection: Connection, row: IdentityRow) -> None:
    """Insert an identity of a person who exists."""
    connection.execute(insert(identities).values({name: getattr(row, name) for name in _OWN}))


def see_identity(connection: Connection, row: IdentityRow, role: str, at: float) -> None:
    """Store the role and time of a sign-in."""
    which = (identities.c.issuer == row.issuer) & (identities.c.subject == row.subject)
    connection.execute(update(identities).where(which).values(role=role, seen=at))


def keep_out(connection: Connection, person_id: str, at: float | None) -> bool:
    """Bar a person from signing in from a time on, and end their sessions; None lets them in
    again.

    Returns False where there is no such person, or nothing changes.
    """
    before = identities.c.revoked.is_not(None) if at is None else identities.c.revoked.is_(None)
    which = (identities.c.person_id == person_id) & before
    if connection.execute(update(identities).where(which).values(revoked=at)).rowcount != 1:
        return False
    end_sessions_of_provider(connection, person_id)
    return True
