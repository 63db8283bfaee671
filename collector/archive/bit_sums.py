"""How often each bit is set in many reports: carry-save planes over 64-bit words, in numpy.

Three words of one weight become one of the same weight and one of twice the weight (a carry-save
adder: Warren, Hacker's Delight, 2nd edition, section 5-1). The work is five operations a word
whatever the number of reports, and nothing is compiled.
"""

from __future__ import annotations

from math import gcd

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]

_BLOCK_BYTES = 1 << 20  # summed at once: it and its carries stay in the cache of a core
_FEW_ROWS = 96  # that are cheaper to unpack than to add


def sum_bits(rows: Bytes, num_bits: int) -> Counts:
    """Count the set bits of each position.

    rows: (n, ceil(num_bits / 8)) bytes, C-contiguous; bit i is bit i % 8 of byte i // 8.
    Returns (num_bits,) counts.
    """
    n, width = rows.shape
    group = 8 // gcd(width, 8)  # rows that fill whole words together
    whole = n - n % group
    words = rows[:whole].reshape(-1).view(np.uint64).reshape(-1, width * group // 8)
    total = np.zeros(8 * width * group, dtype=np.int64)
    step = max(_FEW_ROWS, _BLOCK_BYTES // (8 * words.shape[1]))
    most = min(step, len(words))
    sizes = (most // 3 + _FEW_ROWS,) * 3 + (most // 2 + _FEW_ROWS,) * 2
    spare = tuple(np.empty((size, words.shape[1]), dtype=np.uint64) for size in sizes)
    for start in range(0, len(words), step):
        total += _sum_block(words[start : start + step], spare)
    counts = total.reshape(group, 8 * width).sum(axis=0)
    counts += _unpacked_sum(rows[whole:])
    found: Counts = counts[:num_bits]
    return found


def _sum_block(words: Words, spare: tuple[Words, ...]) -> Counts:
    """Counts of each bit of the words of one block: (rows, w) gives (64 * w,).

    spare: memory for sums and carries; new memory for each would cost more than the adding.
    """
    total = np.zeros(64 * words.shape[1], dtype=np.int64)
    sums, either, both, here, there = spare
    rows, weight = words, 1
    while len(rows):
        rest, carries = _add_up(rows, sums, either, both, here)
        total += weight * _unpacked_sum(rest.view(np.uint8))
        rows, weight = carries, 2 * weight
        here, there = there, here  # the next carries go where none are read
    return total


def _add_up(
    rows: Words, sums: Words, either: Words, both: Words, carries: Words
) -> tuple[Words, Words]:
    """Reduce rows of one weight to a few; the carries have twice the weight.

    sums, either, both, carries: where results are put.
    """
    made = 0
    while len(rows) > _FEW_ROWS:
        third = len(rows) // 3
        a, b, c = rows[:third], rows[third : 2 * third], rows[2 * third : 3 * third]
        rest = rows[3 * third :].copy()
        carry, odd = carries[made : made + third], either[:third]
        np.bitwise_xor(a, b, out=odd)
        np.bitwise_and(a, b, out=carry)
        np.bitwise_and(odd, c, out=both[:third])
        np.bitwise_or(carry, both[:third], out=carry)
        np.bitwise_xor(odd, c, out=sums[:third])
        rows = sums[: third + len(rest)]
        rows[third:] = rest
        made += third
    return rows, carries[:made]


def _unpacked_sum(rows: Bytes) -> Counts:
    bits = np.unpackbits(np.ascontiguousarray(rows), axis=1, bitorder="little")
    small = np.uint8 if len(rows) < 256 else np.int64
    total: Counts = bits.sum(axis=0, dtype=small).astype(np.int64)
    return total
