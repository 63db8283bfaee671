"""Hashes that map a value to the bits of its Bloom filter in each cohort.

There are two families. `mmh3`, this project's default, hashes a value once and derives the
positions in every cohort by arithmetic, which numpy performs for a million values at once. `md5` is
the hash of google/rappor's Python and C++ clients, for users who already have such reports.

Two positions of a value may coincide, so that fewer bits are set, as in arXiv:1407.6981.
"""

from __future__ import annotations

import unicodedata
from hashlib import md5
from typing import TYPE_CHECKING

try:
    import mmh3
except ImportError:  # `hash_problem` reports it
    mmh3 = None  # type: ignore[assignment]

from rappor_core.errors import ValueRefusedError

if TYPE_CHECKING:
    from rappor_core.params import RapporParams

MAX_VALUE_CHARS = 2_048  # the time of Unicode normalization grows with the square of the length
MASK64 = (1 << 64) - 1
KNOWN_ANSWER = (0x7A39BBC5CBEF70EB, 0xFED684C9B5D279C4)  # `value_hash(b"rappor")`
MIX_1 = 0xBF58476D1CE4E5B9  # the finalizer of SplitMix64 (Steele, Lea, Flood 2014; Stafford's mix)
MIX_2 = 0x94D049BB133111EB


def canonical(text: str) -> str:
    """Return a text in Unicode NFC, so that composed and decomposed letters compare as equal."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def normalize(text: str) -> bytes:
    """Return a string in Unicode NFC and UTF-8, the only form that is hashed and compared.

    Raises ValueRefusedError for text that UTF-8 cannot express (a lone surrogate).
    """
    if text.isascii():
        return text.encode()
    try:
        return canonical(text).encode()
    except UnicodeEncodeError as error:
        raise ValueRefusedError(
            "the string contains a lone surrogate, which UTF-8 cannot express; clean it first"
        ) from error


def value_hash(data: bytes) -> tuple[int, int]:
    """Return the MurmurHash3 of a value (128 bits, x64, seed 0) as two unsigned 64-bit halves."""
    halves: tuple[int, int] = mmh3.hash64(data, signed=False)
    return halves


def hash_problem() -> str:
    """Return why the hash library is unusable here, or "" if it passes a known-answer test.

    mmh3 is a compiled library. If it is inside a zip file, Python imports an empty package without
    an error.
    """
    try:
        return "" if value_hash(b"rappor") == KNOWN_ANSWER else "mmh3 gives a wrong hash"
    except Exception as error:  # a broken library can raise anything
        return f"mmh3 does not work here ({type(error).__name__}: {error})"


def mix64(word: int) -> int:
    """Mix 64 bits so that each output bit depends on every input bit; a bijection on [0, 2**64)."""
    word = ((word ^ (word >> 30)) * MIX_1) & MASK64
    word = ((word ^ (word >> 27)) * MIX_2) & MASK64
    return word ^ (word >> 31)


def mmh3_positions(data: bytes, cohort: int, num_bits: int, num_hashes: int) -> tuple[int, ...]:
    """Return the h positions of a value in one cohort, in [0, num_bits), for family `mmh3`.

    Word w = cohort * ceil(h/2) + i is mix64(low + (w + 1) * (high | 1)): a SplitMix64 stream whose
    start and step come from the value's hash. The halves of w, upper and lower, yield positions 2i
    and 2i + 1, each as (half * num_bits) >> 32, whose bias is below num_bits / 2**32.
    """
    state, step = value_hash(data)
    step |= 1
    num_words = (num_hashes + 1) // 2
    state += cohort * num_words * step
    positions: tuple[int, ...] = ()
    for _ in range(num_words):
        state += step
        word = mix64(state & MASK64)
        positions += (word >> 32) * num_bits >> 32, (word & 0xFFFFFFFF) * num_bits >> 32
    return positions[:num_hashes]


def md5_positions(data: bytes, cohort: int, num_bits: int, num_hashes: int) -> tuple[int, ...]:
    """Return a value's h bit positions in one cohort, as google/rappor's clients compute them.

    Position i is byte i of MD5(cohort as 4 bytes, big-endian, then the value), modulo num_bits.
    """
    digest = md5(cohort.to_bytes(4, "big") + data, usedforsecurity=False).digest()
    return tuple(byte % num_bits for byte in digest[:num_hashes])


FAMILIES = {"mmh3": mmh3_positions, "md5": md5_positions}


def bloom_positions(data: bytes, cohort: int, params: RapporParams) -> tuple[int, ...]:
    """Return the bit positions of a value in one cohort.

    Args:
        data: The `normalize`d bytes of the value. Private on a device.
        cohort: The cohort, from 0.
        params: The parameters, including the hash family.

    Returns:
        h integers in [0, k). Private on a device.
    """
    return FAMILIES[params.hash](data, cohort, params.num_bits, params.num_hashes)


def bloom_bits(data: bytes, cohort: int, params: RapporParams) -> int:
    """Return B as an integer of k bits. Bit i is set if one of the value's hashes equals i."""
    bits = 0
    positions = FAMILIES[params.hash]
    for position in positions(data, cohort, params.num_bits, params.num_hashes):
        bits |= 1 << position
    return bits
