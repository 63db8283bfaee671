"""Values that a device derives from its secret, which is created once and never sent.

All derivations use one keyed pseudo-random function: SHAKE-256 (FIPS 202) over length-prefixed
fields, the first of which names the purpose. A sponge keyed by a prefix is a pseudo-random function
(Bertoni, Daemen, Peeters, Van Assche 2011, "Cryptographic sponge functions"). The length prefixes
guarantee that two different lists of fields never produce the same input.
"""

import os
from collections.abc import Callable
from hashlib import shake_256

SECRET_BYTES = 32
DIGEST_BYTES = 16
DOMAIN = b"rappor-telemetry v1"

Randomness = Callable[[int], bytes]


def new_secret(randomness: Randomness) -> bytes:
    """Create a device secret of 32 bytes. Private; each new secret spends the budget again."""
    return randomness(SECRET_BYTES)


def keyed_input(secret: bytes, purpose: bytes, *fields: bytes) -> bytes:
    """Return the bytes to hash: each field, prefixed with its length (4 bytes, big-endian)."""
    parts = (DOMAIN, purpose, secret, *fields)
    return b"".join([len(part).to_bytes(4, "big") + part for part in parts])


def derive(secret: bytes, purpose: bytes, *fields: bytes, length: int) -> bytes:
    """Derive `length` pseudo-random bytes for a purpose and its fields. Private."""
    return shake_256(keyed_input(secret, purpose, *fields)).digest(length)


def cohort_of(secret: bytes, metric: str, num_cohorts: int) -> int:
    """Return the device's cohort, in [0, num_cohorts). Public: every report contains it.

    Cohorts of different metrics are independent, so that they cannot link two metrics' counters.
    The bias of the multiplication is below num_cohorts / 2**64.
    """
    return draw(secret, b"cohort", metric, num_cohorts)


def draw(secret: bytes, purpose: bytes, metric: str, choices: int, *fields: bytes) -> int:
    """Draw a uniform integer from [0, choices), fixed for the device's lifetime.

    The bias is below choices / 2**64. The result also depends on `fields`.
    """
    word = int.from_bytes(derive(secret, purpose, metric.encode(), *fields, length=8), "big")
    return (word * choices) >> 64


def jitter_of(secret: bytes, metric: str, params_id: str) -> float:
    """Return the device's constant for a metric, a 53-bit number in [0, 1). Private; never sent."""
    word = derive(secret, b"jitter", metric.encode(), bytes.fromhex(params_id), length=8)
    return float((int.from_bytes(word, "big") >> 11) * 2.0**-53)


def secret_check(secret: bytes) -> bytes:
    """Return an 8-byte checksum that detects a damaged or foreign secret without revealing it."""
    return derive(secret, b"check", length=8)


def system_randomness(num_bytes: int) -> bytes:
    """Return bytes from the operating system's secure generator, which is safe across forks."""
    return os.urandom(num_bytes)
