"""Statements on people, keys, sessions, identities of a provider, and the audit log."""

from __future__ import annotations

from sqlalchemy import ColumnElement, delete, select, true, update
from sqlalchemy.orm import Session

from decoder_service.shell.database import changed
from decoder_service.shell.models import AuditRow, IdentityRow, KeyRow, PersonRow, SessionRow


def person_named(db: Session, name: str) -> str | None:
    """The id of a person."""
    return db.scalar(select(PersonRow.id).where(PersonRow.name == name))


def load_keys(db: Session, which: ColumnElement[bool] | None = None) -> list[KeyRow]:
    """Load keys, revoked ones too, oldest first."""
    wanted = true() if which is None else which
    return list(db.scalars(select(KeyRow).where(wanted).order_by(KeyRow.created, KeyRow.key_id)))


def revoke_key(db: Session, key_id: str, at: float) -> bool:
    """Revoke a key and end its sessions. Return False if no valid key has this id."""
    valid = (KeyRow.key_id == key_id, KeyRow.revoked.is_(None))
    if changed(db, update(KeyRow).where(*valid).values(revoked=at)) != 1:
        return False
    db.execute(delete(SessionRow).where(SessionRow.key_id == key_id))
    return True


def load_session(db: Session, token_hash: bytes, at: float) -> SessionRow | None:
    """A session that is not over at a time."""
    holds = (SessionRow.token_hash == token_hash, SessionRow.expires > at)
    return db.scalar(select(SessionRow).where(*holds))


def end_session(db: Session, token_hash: bytes) -> None:
    """Delete a session."""
    db.execute(delete(SessionRow).where(SessionRow.token_hash == token_hash))


def end_sessions_of_provider(db: Session, person_id: str, but_of_role: str | None = None) -> None:
    """Delete a person's sessions through the provider, but for those of a role."""
    which = (SessionRow.person_id == person_id) & SessionRow.key_id.is_(None)
    if but_of_role is not None:
        which &= SessionRow.role != but_of_role
    db.execute(delete(SessionRow).where(which))


def end_oldest_sessions(db: Session, person_id: str, most: int) -> None:
    """Delete all sessions of a person but the latest."""
    own = select(SessionRow.token_hash).where(SessionRow.person_id == person_id)
    latest = own.order_by(SessionRow.created.desc(), SessionRow.token_hash).limit(most)
    older = (SessionRow.person_id == person_id) & SessionRow.token_hash.not_in(latest)
    db.execute(delete(SessionRow).where(older))


def end_old_sessions(db: Session, at: float) -> int:
    """Delete the sessions that are over; how many."""
    return changed(db, delete(SessionRow).where(SessionRow.expires <= at))


def read_audit(db: Session, limit: int) -> list[AuditRow]:
    """The latest entries of the audit log, newest first."""
    return list(db.scalars(select(AuditRow).order_by(AuditRow.id.desc()).limit(limit)))


def load_identities(db: Session, which: ColumnElement[bool] | None = None) -> list[IdentityRow]:
    """The people of the identity provider, those kept out too, by name."""
    wanted = true() if which is None else which
    people = select(IdentityRow).join(PersonRow, PersonRow.id == IdentityRow.person_id)
    return list(db.scalars(people.where(wanted).order_by(PersonRow.name)))


def see_identity(db: Session, row: IdentityRow, role: str, at: float) -> None:
    """Store the role and time of a sign-in."""
    which = (IdentityRow.issuer == row.issuer) & (IdentityRow.subject == row.subject)
    db.execute(update(IdentityRow).where(which).values(role=role, seen=at))


def keep_out(db: Session, person_id: str, at: float | None) -> bool:
    """Bar a person from signing in from a time on, and end their sessions; None lets them in
    again.

    Returns False where there is no such person, or nothing changes.
    """
    before = IdentityRow.revoked.is_not(None) if at is None else IdentityRow.revoked.is_(None)
    which = (IdentityRow.person_id == person_id) & before
    if changed(db, update(IdentityRow).where(which).values(revoked=at)) != 1:
        return False
    end_sessions_of_provider(db, person_id)
    return True
