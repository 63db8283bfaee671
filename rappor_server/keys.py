"""Secrets for keys and sessions, with 256 random bits, so that a plain SHA-256 protects them."""

import base64
import hmac
from collections.abc import Callable
from hashlib import sha256


def make_secret(random_bytes: Callable[[int], bytes]) -> str:
    """Return a new secret: 43 characters of letters, digits, `-` and `_`."""
    return base64.urlsafe_b64encode(random_bytes(32)).decode("ascii").rstrip("=")


def hash_secret(secret: str) -> bytes:
    """Return the SHA-256 of a secret key, 32 bytes, which is stored instead of the key."""
    return sha256(secret.encode("ascii")).digest()


def is_secret(secret: str, stored: bytes) -> bool:
    """Return whether a stored hash matches a secret, in constant time."""
    return hmac.compare_digest(hash_secret(secret), bytes(stored))
