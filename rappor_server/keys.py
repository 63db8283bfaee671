"""Secrets of keys and sessions: 256 random bits, too many to guess from their plain SHA-256."""

import base64
import hmac
from collections.abc import Callable
from hashlib import sha256


def make_secret(random_bytes: Callable[[int], bytes]) -> str:
    """Return a new secret: 43 characters of letters, digits, `-` and `_`."""
    return base64.urlsafe_b64encode(random_bytes(32)).decode("ascii").rstrip("=")


def hash_secret(secret: str) -> bytes:
    """Return the SHA-256 of a secret key, 32 bytes, which is stored in its place."""
    return sha256(secret.encode("ascii")).digest()


def is_secret(secret: str, stored: bytes) -> bool:
    """Return whether a stored hash is that of a secret, compared in constant time."""
    return hmac.compare_digest(hash_secret(secret), bytes(stored))
