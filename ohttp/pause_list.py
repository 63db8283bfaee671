"""The signed list of metrics that an operator has paused: read by devices, signed by its owner.

A list can only stop what an app's own metrics file allows: it names metrics and days, and nothing
else. Its bytes are an Ed25519 signature (RFC 8032) and then the text that it signs, JSON.
"""

from __future__ import annotations

from datetime import date, timedelta

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from ohttp.pause_wire import (
    MOST_BYTES,
    MOST_DAYS,
    SIGNATURE_BYTES,
    PauseList,
    PauseListError,
    unverified,
)
from rappor_core.errors import ParameterError

CONTEXT = b"rappor-telemetry pause list v1\n"  # no other document can be taken for a list


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
    if len(data) > MOST_BYTES:
        raise PauseListError(f"{len(data):,} bytes; a list has up to {MOST_BYTES:,}")
    try:
        public.verify(data[:SIGNATURE_BYTES], CONTEXT + data[SIGNATURE_BYTES:])
    except InvalidSignature:
        raise PauseListError("not signed by the key that this app ships") from None
    return unverified(data)


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
