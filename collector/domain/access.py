"""The collector's keys. Each key has one scope, is stored as a hash, and can be revoked.

A key is `rk_` + scope + `_` + 16 hexadecimal digits (its id) + `_` + 43 characters of secret. The
secret has 256 random bits, so it cannot be guessed from a plain SHA-256.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic
from typing import Any

from sqlalchemy import Connection, Row

from collector.errors import ScopeError
from collector.store.registry import revoke_key, save_key, touch_state
from rappor_core.calendar import date_of
from rappor_server.errors import AuthenticationError, NotFoundError, RequestError, StorageError
from rappor_server.keys import hash_secret, is_secret, make_secret

MAX_LABEL = 200
_KEY = re.compile(r"rk_(report|aggregate|admin)_([0-9a-f]{16})_([A-Za-z0-9_-]{43})", re.ASCII)


class Scope(StrEnum):
    """The permission of a key: sending reports, reading aggregates, or administration."""

    REPORT = "report"  # send reports; in apps, so practically public
    AGGREGATE = "aggregate"  # read aggregates and totals
    ADMIN = "admin"  # metrics, keys, closing days, the audit log


@dataclass(frozen=True, slots=True)
class NewCollectorKey:
    """A new key, whose text is shown once. Only `text` is secret."""

    key_id: str
    scope: Scope
    label: str
    text: str


KeyRing = Mapping[str, Row[Any]]  # the valid keys, by id


def check_key(ring: KeyRing, authorization: str | None, allowed: Collection[Scope]) -> str:
    """Return the id of the key in an `Authorization` header; no message contains the key.

    Raises AuthenticationError if there is no valid key, and ScopeError if its scope is not allowed.
    """
    scopes = " or ".join(scope.value for scope in allowed)
    if authorization is None:
        raise AuthenticationError(f"send a key of scope {scopes} as Authorization: Bearer KEY")
    scheme, _, text = authorization.partition(" ")
    match = _KEY.fullmatch(text.strip()) if scheme.lower() == "bearer" else None
    row = ring.get(match[2]) if match else None
    if match is None or row is None or not is_secret(match[3], row.secret_hash):
        raise AuthenticationError(
            f"the key is unknown to this collector, or revoked; {_hint(allowed)}"
        )
    if row.scope not in allowed:
        raise ScopeError(f"the key has scope {row.scope}; this needs {scopes}: {_hint(allowed)}")
    return str(row.key_id)


def _hint(allowed: Collection[Scope]) -> str:
    return f"an operator creates one with rappor keys create --scope {next(iter(allowed))}"


def create_key(
    connection: Connection,
    scope: Scope,
    label: str,
    today: int,
    random_bytes: Callable[[int], bytes],
) -> NewCollectorKey:
    """Create a key. Its text is returned only here."""
    if len(label) > MAX_LABEL or not label.isprintable():
        raise RequestError(f"label {label[:60]!a}: up to {MAX_LABEL} printable characters")
    key_id = random_bytes(8).hex()
    secret = make_secret(random_bytes)
    save_key(
        connection,
        key_id=key_id,
        scope=scope.value,
        label=label,
        secret_hash=hash_secret(secret),
        created=today,
    )
    touch_state(connection)
    return NewCollectorKey(key_id, scope, label, f"rk_{scope.value}_{key_id}_{secret}")


def revoke(connection: Connection, key_id: str, today: int) -> None:
    """Revoke a key permanently. Raises NotFoundError if no valid key has this id."""
    if not re.fullmatch("[0-9a-f]{16}", key_id) or not revoke_key(connection, key_id, today):
        raise NotFoundError(
            f"there is no key {key_id[:40]!a} that is not revoked already; "
            "rappor keys list shows all"
        )
    touch_state(connection)


def public_fields(row: Row[Any]) -> dict[str, Any]:
    """Return the public properties of a key, as a list of keys shows them."""
    return {
        "key_id": row.key_id,
        "scope": row.scope,
        "label": row.label,
        "created": date_of(row.created).isoformat(),
        "revoked": None if row.revoked is None else date_of(row.revoked).isoformat(),
    }


MAX_AGE = 5.0
MAX_AGE_OF_UNKNOWN = 1.0


class KeyKeeper:
    """An in-memory key checker; a revoked key becomes invalid everywhere within `MAX_AGE` seconds.

    `check` never uses the database. If `is_stale`, callers must first call `refresh`, off the event
    loop. If the database cannot be reached, the last known keys stay valid.
    """

    def __init__(
        self, load: Callable[[], KeyRing], *, seconds: Callable[[], float] = monotonic
    ) -> None:
        self._load = load
        self._seconds = seconds
        self._ring: KeyRing | None = None
        self._loaded = float("-inf")

    def is_stale(self, max_age: float = MAX_AGE) -> bool:
        """Return whether the keys were last read more than `max_age` seconds ago."""
        return self._seconds() - self._loaded >= max_age

    def refresh(self) -> None:
        """Read the keys. Raises StorageError only if no keys were ever read."""
        self._loaded = self._seconds()  # first, so that other callers use the old keys meanwhile
        try:
            self._ring = self._load()
        except StorageError:
            if self._ring is None:
                raise

    def check(self, authorization: str | None, *scopes: Scope) -> str:
        """Return the id of the header's key, like `check_key`, if it has one of the scopes."""
        return check_key(self._ring or {}, authorization, scopes)
