"""Keys, browser sessions, and the audit log.

A key is `rd_` + role + `_` + 16 hexadecimal digits (its id) + `_` + 43 characters of secret. The
secret has 256 random bits, so its plain SHA-256 cannot be reversed by search. The same is true for
session tokens."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from sqlalchemy import ColumnElement, delete, select
from sqlalchemy.orm import Session

from decoder_service.people.permissions import (
    SERVICE_ID,
    Act,
    Claimed,
    Person,
    Role,
    require,
    usage_of,
)
from decoder_service.shell.database import (
    DAY_SECONDS,
    Operations,
    changed,
    save,
    shown,
    visible_row,
)
from decoder_service.shell.models import (
    AuditRow,
    Identified,
    IdentityRow,
    KeyRow,
    PersonRow,
    SessionRow,
)
from rappor_server.errors import AuthenticationError, NotFoundError, RequestError
from rappor_server.keys import hash_secret, is_secret, make_secret

COMMAND_LINE = Person("", "command-line", Role.ADMIN)
SERVICE = Person(SERVICE_ID, "decoder-service", Role.ADMIN)  # has no key
_RESERVED = (COMMAND_LINE.name, SERVICE.name)
MAX_NAME = 200
MAX_SESSIONS = 20  # per person; beyond it, the oldest session ends
_KEY = re.compile(rf"rd_({'|'.join(Role)})_([0-9a-f]{{16}})_([A-Za-z0-9_-]{{43}})", re.ASCII)
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_UNKNOWN = (
    "the key is unknown to this decoder service, or revoked; an admin makes another (page Keys, or "
    "rappor decoder keys create)"
)


@dataclass(frozen=True, slots=True)
class NewKey:
    """A new key, whose secret `text` is shown once."""

    key_id: str
    name: str
    role: Role
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Access(Operations):
    """Identification of people by keys and sessions, and the audit log."""

    def person_of_key(self, text: str) -> Person:
        """Return the person of a valid key. Raises AuthenticationError, without the key."""
        match = _KEY.fullmatch(text.strip())
        with self.database.reading() as db:
            row = db.get(KeyRow, match[2]) if match else None
        if match is None or row is None or not is_secret(match[3], row.secret_hash):
            raise AuthenticationError(_UNKNOWN)
        if row.revoked is not None or row.role != match[1]:
            raise AuthenticationError(_UNKNOWN)
        return Person(row.person_id, row.person.name, Role(row.role), row.key_id)

    def person_of_session(self, token: str) -> Person:
        """Return the person of a session. Raises AuthenticationError if it is unknown or over."""
        row = None
        if _TOKEN.fullmatch(token):
            with self.database.reading() as db:
                row = db.get(SessionRow, hash_secret(token))
        if row is None or row.expires <= self.now():
            raise AuthenticationError("the session has ended; sign in again at /sign-in")
        return Person(row.person_id, row.person.name, Role(row.role), row.key_id or "")

    def sign_in(self, key: str) -> str:
        """Create a session for the person of a key; return the token for the browser's cookie.

        Raises AuthenticationError if the key is invalid."""
        person = self.person_of_key(key)
        with self.database.writing() as db:
            return self._session(db, person, {})

    def sign_in_claimed(self, issuer: str, claimed: Claimed) -> tuple[Person, str]:
        """Create a session for a person whom the identity provider identified.

        The first sign-in creates the person. Each sign-in ends the person's sessions that have
        another role than the provider reports now.

        Returns:
            The person, and the token for the browser's cookie.

        Raises:
            AuthenticationError: An admin has locked this person out.
        """
        with self.database.writing() as db:
            row = db.get(IdentityRow, (issuer, claimed.subject))
            if row is None:
                row = self._new_identity(db, issuer, claimed)
            if row.revoked is not None:
                raise AuthenticationError(
                    "an admin of this service has blocked you; ask them to unblock you (page Keys)"
                )
            row.role, row.seen = claimed.role, self.now()
            _end_sessions(db, row.person_id, SessionRow.role != claimed.role)
            owner = db.get_one(PersonRow, row.person_id)
            person = Person(owner.id, owner.name, claimed.role)
            return person, self._session(db, person, {"issuer": issuer})

    def forget_role(self, issuer: str, subject: str) -> None:
        """End the sessions and the role of a person without a provider group."""
        with self.database.writing() as db:
            row = db.get(IdentityRow, (issuer, subject))
            if row is not None:
                row.seen = 0.0
                _end_sessions(db, row.person_id)

    def _new_identity(self, db: Session, issuer: str, claimed: Claimed) -> IdentityRow:
        """Store a person of the provider, identified by subject; change a name that is taken."""
        at, person, name = self.now(), self.new_id(), claimed.name
        if name in _RESERVED or _person_named(db, name) is not None:
            name = f"{name} ({person[:8]})"
        save(db, PersonRow(id=person, name=name, created=at))
        row = IdentityRow(
            issuer=issuer,
            subject=claimed.subject,
            person_id=person,
            role=claimed.role,
            created=at,
            seen=at,
        )
        save(db, row)
        return row

    def _session(self, db: Session, person: Person, detail: dict[str, str]) -> str:
        token, at = make_secret(self.random_bytes), self.now()
        row = SessionRow(
            token_hash=hash_secret(token),
            person_id=person.id,
            role=person.role,
            key_id=person.key_id or None,
            created=at,
            expires=at + self.settings.session_seconds,
        )
        end_old_sessions(db, at)
        save(db, row)
        ids = select(SessionRow.token_hash).where(SessionRow.person_id == person.id)
        latest = ids.order_by(SessionRow.created.desc(), SessionRow.token_hash).limit(MAX_SESSIONS)
        older = (SessionRow.person_id == person.id) & SessionRow.token_hash.not_in(latest)
        db.execute(delete(SessionRow).where(older))
        self.note(db, person, "sign-in", **detail)
        return token

    def sign_out(self, person: Person, token: str) -> None:
        """End a person's session."""
        with self.database.writing() as db:
            db.execute(delete(SessionRow).where(SessionRow.token_hash == hash_secret(token)))
            self.note(db, person, "sign-out")

    def create_key(self, person: Person, name: str, role: Role, label: str = "") -> NewKey:
        """Create a key for a person, who is created with the first key.

        The key's text is returned only here. Raises RoleError, RequestError."""
        require(person, Act.ADMINISTER)
        for what, text in (("name", name), ("label", label)):
            if len(text) > MAX_NAME or not text.isprintable() or text != text.strip():
                raise RequestError(f"{what} {text[:60]!a}: up to {MAX_NAME} printable characters")
        if not name or name in _RESERVED:
            raise RequestError(f"name {name!a}: give the name of a person")
        at, key_id, secret = self.now(), self.new_id(), make_secret(self.random_bytes)
        with self.database.writing() as db:
            owner = _person_named(db, name)
            if owner is None:
                owner = self.new_id()
                save(db, PersonRow(id=owner, name=name, created=at))
            row = KeyRow(
                key_id=key_id,
                person_id=owner,
                role=role.value,
                label=label,
                secret_hash=hash_secret(secret),
                created=at,
            )
            save(db, row)
            self.note(db, person, "create-key", key=key_id, name=name, role=role.value)
        return NewKey(key_id, name, role, f"rd_{role.value}_{key_id}_{secret}")

    def list_identities(self, person: Person) -> list[IdentityRow]:
        """List the people who sign in through the identity provider, by name. Raises RoleError."""
        require(person, Act.ADMINISTER)
        people = select(IdentityRow).join(PersonRow, PersonRow.id == IdentityRow.person_id)
        with self.database.reading() as db:
            return list(db.scalars(people.order_by(PersonRow.name)))

    def keep_out(self, person: Person, person_id: str, out: bool) -> None:
        """Block a person from the provider and end their sessions, or unblock the person.

        Their keys stay valid: revoke them separately. Raises RoleError, NotFoundError."""
        require(person, Act.ADMINISTER)
        with self.database.writing() as db:
            query = select(IdentityRow).where(IdentityRow.person_id == person_id)
            row = db.scalar(query.with_for_update(of=IdentityRow))  # serializes two admins
            if row is None or (row.revoked is not None) == out:
                raise NotFoundError(
                    f"there is no person {person_id[:40]!a} to whom that applies; "
                    "GET /v1/identities lists all"
                )
            row.revoked = self.now() if out else None
            _end_sessions(db, person_id)
            self.note(db, person, "keep-out", kept=person_id, out=out)

    def person_of_id(self, db: Session, person_id: str) -> Person | None:
        """Return a person with the highest role of keys and sign-in; None if none is valid."""
        if person_id == SERVICE.id:
            return SERVICE
        since = self.now() - self.settings.oidc_role_days * DAY_SECONDS
        is_person = IdentityRow.person_id == person_id
        signed_in = select(IdentityRow).where(
            is_person, IdentityRow.revoked.is_(None), IdentityRow.seen >= since
        )
        keys = select(KeyRow).where(KeyRow.person_id == person_id, KeyRow.revoked.is_(None))
        roles = {row.role: Person(person_id, row.person.name, Role(row.role))
                 for row in db.scalars(signed_in)}  # fmt: skip
        for key in db.scalars(keys.order_by(KeyRow.created, KeyRow.key_id)):
            roles[key.role] = Person(person_id, key.person.name, Role(key.role), key.key_id)
        return next((roles[role] for role in reversed(Role) if role in roles), None)

    def check_holds(self, db: Session, person: Person) -> None:
        """Raise AuthenticationError if the person's key or identity was revoked during the request.

        Use this in a transaction."""
        signed_in = select(IdentityRow).where(IdentityRow.person_id == person.id)
        row = db.get(KeyRow, person.key_id) if person.key_id else db.scalar(signed_in)
        if person != COMMAND_LINE and (row is None or row.revoked is not None):
            raise AuthenticationError(_UNKNOWN)

    def list_keys(self, person: Person) -> list[KeyRow]:
        """List all keys without their secrets, oldest first. Raises RoleError."""
        require(person, Act.ADMINISTER)
        with self.database.reading() as db:
            return list(db.scalars(select(KeyRow).order_by(KeyRow.created, KeyRow.key_id)))

    def revoke_key(self, person: Person, key_id: str) -> None:
        """Revoke a key permanently, and end its sessions. Raises RoleError, NotFoundError."""
        require(person, Act.ADMINISTER)
        with self.database.writing() as db:
            row = db.get(KeyRow, key_id, with_for_update={"of": KeyRow})
            if row is None or row.revoked is not None:
                raise NotFoundError(
                    f"there is no key {key_id[:40]!a} that is valid; GET /v1/keys lists all"
                )
            row.revoked = self.now()
            db.execute(delete(SessionRow).where(SessionRow.key_id == key_id))
            self.note(db, person, "revoke-key", key=key_id)

    def usage(self, person: Person) -> dict[str, dict[str, int]]:
        """Return what a person has stored, and the role's limits (`usage_of`). Raises RoleError."""
        require(person, Act.ANALYZE)
        with self.database.reading() as db:
            return usage_of(db, self.settings, person)

    def read_audit(self, person: Person, limit: int = 100) -> list[AuditRow]:
        """Return the latest actions, newest first. Raises RoleError."""
        require(person, Act.ADMINISTER)
        with self.database.reading() as db:
            return list(db.scalars(select(AuditRow).order_by(AuditRow.id.desc()).limit(limit)))

    def note(self, db: Session, person: Person, act: str, **detail: Any) -> None:
        """Append an entry to the audit log, in the action's transaction."""
        text = json.dumps(detail, sort_keys=True)
        save(
            db,
            AuditRow(at=self.now(), actor=person.name, key_id=person.key_id, act=act, detail=text),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedOperations(Operations):
    """Operations that are recorded in the audit log."""

    access: Access


Row = TypeVar("Row", bound=Identified)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources(AuditedOperations, Generic[Row]):
    """Operations on the rows of one table, each limited to the rows that the person may see."""

    model: ClassVar[type[Any]]  # The table's class
    visible: ClassVar[Callable[[Person], ColumnElement[bool]]]  # SQL filter: rows a person may see
    act: ClassVar[Act] = Act.ANALYZE  # The action that the person's role must allow
    order: ClassVar[tuple[Any, ...]]  # The order in which rows are listed

    def all(
        self,
        person: Person,
        *which: ColumnElement[bool],
        limit: int | None = 1000,
        offset: int = 0,
    ) -> list[Row]:
        """Return a person's visible rows that match all conditions `which`. Raises RoleError."""
        require(person, self.act)
        statement = select(self.model).where(type(self).visible(person), *which)
        with self.database.reading() as db:
            return list(db.scalars(statement.order_by(*self.order).limit(limit).offset(offset)))

    def get(self, person: Person, row_id: str) -> Row:
        """Return a row that the person may see. Raises RoleError, NotFoundError."""
        require(person, self.act)
        with self.database.reading() as db:
            return self.one(db, person, row_id)

    def one(self, db: Session, person: Person, row_id: str) -> Row:
        """Return a visible row in the caller's transaction, without checking the role.

        Raises NotFoundError."""
        row: Row = visible_row(db, self.model, type(self).visible(person), row_id)
        return row


def _person_named(db: Session, name: str) -> str | None:
    return db.scalar(select(PersonRow.id).where(PersonRow.name == name))


def _end_sessions(db: Session, person_id: str, *which: ColumnElement[bool]) -> None:
    where = (SessionRow.person_id == person_id, SessionRow.key_id.is_(None))
    db.execute(delete(SessionRow).where(*where, *which))


def end_old_sessions(db: Session, at: float) -> int:
    """Delete the expired sessions; return their number."""
    return changed(db, delete(SessionRow).where(SessionRow.expires <= at))


def shown_key(row: KeyRow) -> dict[str, Any]:
    """Return the public properties of a key, as a list of keys shows them."""
    return shown(row, "key_id role label created revoked") | {"name": row.person.name}
