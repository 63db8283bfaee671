"""Database rows of people who sign in through an identity provider."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, insert, select, true, update

from decoder_service.people.rows import end_sessions_of_provider
from decoder_service.shell.models import identities, people


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
