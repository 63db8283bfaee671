"""Random words whose bits fall 1 with a probability that is exact over 2**16.

A word of k independent Bernoulli(t / 2**16) bits comes from at most 16 uniform words by Horner's
scheme on the binary digits of t, least significant first: OR with a uniform word where the digit
is 1 (x -> 1/2 + x/2), AND where it is 0 (x -> x/2). Trailing zeros of t need no word at all, so
t = 1/2 takes one word and t = 3/4 two.

Randomness is an argument everywhere: a callable that takes a number of bytes and returns them.
Production code passes `system_randomness`, which takes no seed.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from rappor_core.mechanism import PROBABILITY_BITS, PROBABILITY_SCALE

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
