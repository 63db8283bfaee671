"""Count how often each bit is set in packed reports, in compiled code: carry-save adders in
registers.

`archive.bit_sums` does the same in numpy, because the workers that sum an archive compile nothing.
There each adder writes its result to memory; here 32 reports of a word become one carry of
weight 32 without leaving the processor (Warren, Hacker's Delight, 2nd edition, section 5-1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoder.numerics.bit_tensor import compiled

Words = NDArray[np.uint64]
Counts = NDArray[np.int64]

_PLANES = 48  # binary digits of a count
_NEAR = 1024  # rows that stay in the nearest cache while their words are added in turn
_NONE = np.uint64(0)


def sum_words(rows: Words, num_bits: int) -> Counts:
    """Count the set bits of each position, (num_bits,).

    Args:
        rows: (n, words) reports; bit i is bit i % 64 of word i // 64.
        num_bits: of a report.
    """
    planes = np.zeros((_PLANES, rows.shape[1]), dtype=np.uint64)
    _add(rows, planes)
    digits = np.unpackbits(planes.view(np.uint8), axis=1, bitorder="little").astype(np.int64)
    found: Counts = ((1 << np.arange(_PLANES))[:, None] * digits).sum(axis=0)[:num_bits]
    return found


@compiled
def _sum_and_carry(a: Any, b: Any, c: Any) -> Any:
    """Three bits of one weight in each place: one of that weight, and one of twice the weight."""
    either = a ^ b
    return either ^ c, (a & b) | (either & c)


@compiled
def _ripple(carry: Any, planes: Any, plane: int, word: int) -> None:
    """Add a bit of weight 2 ** plane in each place."""
    while carry != _NONE:
        kept = planes[plane, word]
        planes[plane, word] = kept ^ carry
        carry &= kept
        plane += 1


@compiled
def _eight(rows: Any, i: int, word: int, ones: Any, twos: Any, fours: Any) -> Any:
    """Add eight rows of a word: the three lowest digits, and a carry of weight 8."""
    ones, a = _sum_and_carry(ones, rows[i, word], rows[i + 1, word])
    ones, b = _sum_and_carry(ones, rows[i + 2, word], rows[i + 3, word])
    twos, low = _sum_and_carry(twos, a, b)
    ones, a = _sum_and_carry(ones, rows[i + 4, word], rows[i + 5, word])
    ones, b = _sum_and_carry(ones, rows[i + 6, word], rows[i + 7, word])
    twos, high = _sum_and_carry(twos, a, b)
    fours, eights = _sum_and_carry(fours, low, high)
    return ones, twos, fours, eights


@compiled
def _add(rows: Any, planes: Any) -> None:
    """Add all rows to the binary digits of the counts, the least first."""
    whole = len(rows) - len(rows) % 32
    for first in range(0, whole, _NEAR):
        last = min(first + _NEAR, whole)
        for word in range(rows.shape[1]):
            ones, twos, fours = planes[0, word], planes[1, word], planes[2, word]
            eights, more = planes[3, word], planes[4, word]
            for i in range(first, last, 32):
                ones, twos, fours, a = _eight(rows, i, word, ones, twos, fours)
                ones, twos, fours, b = _eight(rows, i + 8, word, ones, twos, fours)
                eights, low = _sum_and_carry(eights, a, b)
                ones, twos, fours, a = _eight(rows, i + 16, word, ones, twos, fours)
                ones, twos, fours, b = _eight(rows, i + 24, word, ones, twos, fours)
                eights, high = _sum_and_carry(eights, a, b)
                more, carry = _sum_and_carry(more, low, high)
                _ripple(carry, planes, 5, word)
            planes[0, word], planes[1, word], planes[2, word] = ones, twos, fours
            planes[3, word], planes[4, word] = eights, more
    for i in range(whole, len(rows)):
        for word in range(rows.shape[1]):
            _ripple(rows[i, word], planes, 0, word)
