"""Values that a device derives from its secret. The secret is made once, and never leaves.

All derivations are one keyed pseudo-random function: SHAKE-256 (FIPS 202) over length-prefixed
fields, the first of which names the purpose. A sponge keyed by a prefix is a pseudo-random
function (Bertoni, Daemen, Peeters, Van Assche 2011, "Cryptographic sponge functions"), and prefixes
of lengths keep two lists of fields from ever giving the same input.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import shake_256

from rappor_core.mechanism import PROBABILITY_BITS, PROBABILITY_SCALE

SECRET_BYTES = 32
DIGEST_BYTES = 16
DOMAIN = b"rappor-telemetry v1"


def new_secret(randomness: Randomness) -> bytes:
    """Make a new device secret of 32 bytes. Private; each new one spends the whole budget again."""
    return randomness(SECRET_BYTES)


def keyed_input(secret: bytes, purpose: bytes, *fields: bytes) -> bytes:
    """The bytes to hash for a derivation: each field after its length in 4 bytes, big-endian."""
    parts = (DOMAIN, purpose, secret, *fields)
    return b"".join([len(part).to_bytes(4, "big") + part for part in parts])


def derive(secret: bytes, purpose: bytes, *fields: bytes, length: int) -> bytes:
    """Derive `length` pseudo-random bytes from the secret, for a purpose and its fields. Private
    unless said otherwise."""
    return shake_256(keyed_input(secret, purpose, *fields)).digest(length)


def cohort_of(secret: bytes, metric: str, num_cohorts: int) -> int:
    """The device's cohort for a metric, in [0, m). Public: it travels with every report.

    Independent between metrics, so that stored counters of two metrics cannot be linked by it.
    The bias of the multiplication is below num_cohorts / 2**64.
    """
    return draw(secret, b"cohort", metric, num_cohorts)


def draw(secret: bytes, purpose: bytes, metric: str, choices: int, *fields: bytes) -> int:
    """Choose uniformly from [0, choices), by the secret, the same for life; the bias is below
    choices / 2**64.

    fields: what else it hangs on.
    """
    word = int.from_bytes(derive(secret, purpose, metric.encode(), *fields, length=8), "big")
    return (word * choices) >> 64


def jitter_of(secret: bytes, metric: str, params_id: str) -> float:
    """A constant of the device for a metric, of 53 bits in [0, 1). Private, and never sent."""
    word = derive(secret, b"jitter", metric.encode(), bytes.fromhex(params_id), length=8)
    return float((int.from_bytes(word, "big") >> 11) * 2.0**-53)


def secret_check(secret: bytes) -> bytes:
    """8 bytes by which a damaged or foreign secret is recognised; they do not help to find the
    secret."""
    return derive(secret, b"check", length=8)


Randomness = Callable[[int], bytes]


def system_randomness(num_bytes: int) -> bytes:
    """Random bytes from the operating system's secure generator, which is safe across forks."""
    return os.urandom(num_bytes)


class CoinPair:
    """Biased coins for all bits of a word: one coin for bits that are 1, another for bits that
    are 0.

    if_one, if_zero: P(result 1) for a 1 and for a 0, integers in [0, 2**16].
    num_bits: k.  num_bytes: how many random bytes one `toss` takes.

    The two coins share the uniform words: each bit uses only one of them, so they may depend on
    each other. Bits stay independent of one another.
    """

    __slots__ = ("_digits", "_mask", "_start", "_word_bits", "num_bytes")

    def __init__(self, if_one: int, if_zero: int, num_bits: int) -> None:
        """Plan the scheme for two thresholds, once."""
        zeros = min(_trailing_zeros(if_one), _trailing_zeros(if_zero))
        # a coin that always falls 1 starts at an endless word of ones, -1, and has only ORs
        self._start = one, zero = -(if_one >> PROBABILITY_BITS), -(if_zero >> PROBABILITY_BITS)
        self._digits = tuple(
            (bool(if_one + one >> place & 1), bool(if_zero + zero >> place & 1))
            for place in range(zeros, PROBABILITY_BITS)
        )
        self._mask = (1 << num_bits) - 1
        word_bytes = (num_bits + 7) // 8
        self._word_bits = 8 * word_bytes
        self.num_bytes = len(self._digits) * word_bytes

    def toss(self, bits: int, random_bytes: bytes) -> int:
        """Toss the coins over a word of k bits, with `num_bytes` uniform bytes.

        Bytes hold uniform words of ceil(k / 8) bytes, little-endian; the first goes with the least
        significant digit that matters. Surplus high bits of a word are ignored.
        """
        words = int.from_bytes(random_bytes, "little")  # bits above k are cut at the end
        ones, zeros = self._start
        word_bits = self._word_bits
        for digit_one, digit_zero in self._digits:
            ones = ones | words if digit_one else ones & words
            zeros = zeros | words if digit_zero else zeros & words
            words >>= word_bits
        return (zeros ^ (bits & (ones ^ zeros))) & self._mask


def _trailing_zeros(threshold: int) -> int:
    """Binary digits that need no random word: all 16 for a coin that always or never falls 1."""
    if threshold in (0, PROBABILITY_SCALE):
        return PROBABILITY_BITS
    return (threshold & -threshold).bit_length() - 1
