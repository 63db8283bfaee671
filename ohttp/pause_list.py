"""The signed list of metrics that an operator has paused: read by devices, signed by its owner.

A list can only stop what an app's own metrics file allows: it names metrics and days, and nothing
else. Its bytes are an Ed25519 signature (RFC 8032) and then the text that it signs, JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from ohttp.pause_wire import MOST_BYTES, SIGNATURE_BYTES
from rappor_core.errors import ParameterError, RapporError, shown

LIST_VERSION = 1
MOST_DAYS = 90  # for which a list may hold
MOST_NUMBER = 2**53 - 1
CONTEXT = b"rappor-telemetry pause list v1\n"  # no other document can be taken for a list
MOST_CHARS = 200  # of a name


class PauseListError(RapporError):
    """Bytes that are no list of this app by the holder of its key, or one that does not hold."""


@dataclass(frozen=True, slots=True)
class PauseList:
    """Metrics that are not to be recorded or sent. Public.

    Attributes:
        app: of which app; another app's list with the same key does not hold.
        number: grows with each list, 1 to 2^53 - 1; a device takes no smaller one again.
        expires: the last day, UTC, on which the list holds.
        paused: names of metrics, as declared, and the last day, UTC, of each pause.
    """

    app: str
    number: int
    expires: date
    paused: Mapping[str, date]

    def __post_init__(self) -> None:
        """Check the fields. Raises ParameterError with the bad value."""
        if not _is_name(self.app):
            raise ParameterError(f"app = {shown(self.app)} is not 1 to {MOST_CHARS} characters")
        if type(self.number) is not int or not 1 <= self.number <= MOST_NUMBER:
            raise ParameterError(f"number = {shown(self.number)} is not from 1 to 2^53 - 1")
        for name in self.paused:
            if not _is_name(name):
                raise ParameterError(f"paused: {shown(name)} is not 1 to {MOST_CHARS} characters")

    def until(self, metric: str, today: date) -> date | None:
        """The last day of a metric's pause; None where it is not paused today.

        A list that ends more than `MOST_DAYS` from now does not hold: the clock was set back.
        """
        until = self.paused.get(metric) or self.paused.get(metric.partition("/")[0])
        if until is None or self.expires > today + timedelta(days=MOST_DAYS):
            return None
        last = min(until, self.expires)
        return last if today <= last else None

    def text(self) -> bytes:
        """The bytes that are signed, but for their context."""
        fields = {
            "version": LIST_VERSION,
            "app": self.app,
            "number": self.number,
            "expires": self.expires.isoformat(),
            "paused": {name: day.isoformat() for name, day in sorted(self.paused.items())},
        }
        return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def public_key(pem: bytes) -> Ed25519PublicKey:
    """The key in a file of `rappor release keygen`. Raises ParameterError."""
    try:
        found = load_pem_public_key(pem)
    except (ValueError, TypeError):
        raise ParameterError("key: not a public key in PEM") from None
    if not isinstance(found, Ed25519PublicKey):
        raise ParameterError("key: not an Ed25519 key")
    return found


def sign(private: Ed25519PrivateKey, pauses: PauseList) -> bytes:
    """The bytes of a list. Raises ParameterError where they are too many."""
    text = pauses.text()
    if SIGNATURE_BYTES + len(text) > MOST_BYTES:
        raise ParameterError(f"{len(text):,} bytes of text; a list has up to {MOST_BYTES:,}")
    return private.sign(CONTEXT + text) + text


def read(public: Ed25519PublicKey, data: bytes) -> PauseList:
    """The list in bytes that the holder of the key has signed. Raises PauseListError."""
    signature, text = data[:SIGNATURE_BYTES], data[SIGNATURE_BYTES:]
    if len(data) > MOST_BYTES:
        raise PauseListError(f"{len(data):,} bytes; a list has up to {MOST_BYTES:,}")
    try:
        public.verify(signature, CONTEXT + text)
    except InvalidSignature:
        raise PauseListError("not signed by the key that this app ships") from None
    try:
        return _from_json(json.loads(text))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, RapporError):
        raise PauseListError("signed, but not a list of this version") from None


def accepted(
    public: Ed25519PublicKey, data: bytes, app: str, today: date, held: PauseList | None
) -> PauseList:
    """A list that a device takes in place of the one that it holds.

    Args:
        public: the key that ships with the app.
        data: as received.
        app: the device's own.
        today: UTC, by the device's clock.
        held: the last list that was taken, expired or not.

    Raises:
        PauseListError: for one of another app, expired, too far ahead, or older than `held`.
    """
    found = read(public, data)
    if found.app != app:
        raise PauseListError(f"a list of {found.app!r}, not of {app!r}")
    if found.expires < today:
        raise PauseListError(f"expired on {found.expires}")
    if found.expires > today + timedelta(days=MOST_DAYS):
        raise PauseListError(f"ends on {found.expires}, more than {MOST_DAYS} days from {today}")
    if held is not None and found != held and found.number <= held.number:
        raise PauseListError(f"number {found.number} after {held.number}: an older list")
    return found


def _from_json(fields: Any) -> PauseList:
    if set(fields) != {"version", "app", "number", "expires", "paused"}:
        raise ValueError("other keys")
    if type(fields["version"]) is not int or fields["version"] != LIST_VERSION:
        raise ValueError("another version")
    paused = {name: _day(text) for name, text in fields["paused"].items()}
    return PauseList(fields["app"], fields["number"], _day(fields["expires"]), paused)


def _day(text: str) -> date:
    day = date.fromisoformat(text)
    if day.isoformat() != text:
        raise ValueError("another form of a day")
    return day


def _is_name(text: object) -> bool:
    return isinstance(text, str) and 0 < len(text) <= MOST_CHARS
