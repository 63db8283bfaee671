"""Bit counts as one wide integer: k lanes of 32 bits, added with one addition.

A report's bits are spread so that bit i becomes the lowest bit of lane i; then the sum of the
spread integers holds every bit's count side by side. No carry crosses a lane below 2**32 reports.

Many reports are first summed bit-sliced: plane p of a stack holds, for each bit, bit p of its
count, and three words of one plane become one of it and one of the next (a carry-save adder, as in
Harley and Seal's population count: Warren, Hacker's Delight, 2nd edition, section 5-1). Cells of
about one size are summed side by side, in one wide word, so that Python's cost of an operation is
paid once for all of them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

LANE_BYTES = 4
MAX_COUNT = (1 << 32) - 1
_WORD_BYTES = 4096  # of the cells that are summed side by side; wider words gain no more


def lane_sums(cells: Mapping[int, Sequence[bytes]], num_bytes: int) -> dict[int, int]:
    """The lanes of each cell's reports, by cohort.

    cells: one report or more each, fewer than 2**32, all of `num_bytes` bytes.
    """
    sums: dict[int, int] = {}
    size = 8 * num_bytes * LANE_BYTES
    for block in _blocks(cells, max(1, _WORD_BYTES // num_bytes)):
        ranks = zip_longest(*[cells[cohort] for cohort in block], fillvalue=bytes(num_bytes))
        words = [int.from_bytes(b"".join(rank), "little") for rank in ranks]
        lanes = _spread(count_columns(words), 8 * num_bytes * len(block))
        for position, cohort in enumerate(block):
            sums[cohort] = unpack(lanes[position * size : (position + 1) * size])
    return sums


def _blocks(cells: Mapping[int, Sequence[bytes]], most: int) -> Iterator[list[int]]:
    """Cohorts to sum side by side: none has less than half of the reports of another."""
    block: list[int] = []
    for cohort in sorted(cells, key=lambda cohort: len(cells[cohort]), reverse=True):
        if block and (len(block) == most or 2 * len(cells[cohort]) < len(cells[block[0]])):
            yield block
            block = []
        block.append(cohort)
    if block:
        yield block


def _spread(planes: Sequence[int], num_bits: int) -> bytes:
    """Lanes of the counts that the planes hold. Eight planes fill one byte of every lane."""
    lanes = bytearray(num_bits * LANE_BYTES)
    ones = int.from_bytes(b"\x01" * num_bits, "little")
    for start in range(0, len(planes), 8):
        column = 0
        for position, plane in enumerate(planes[start : start + 8]):
            digits = f"{plane:0{num_bits}b}".encode("ascii")  # a byte a bit, the highest first
            column |= (int.from_bytes(digits, "big") & ones) << position
        lanes[start // 8 :: LANE_BYTES] = column.to_bytes(num_bits, "little")
    return bytes(lanes)


def count_columns(words: list[int]) -> list[int]:
    """Count how often each bit position is set, as bit planes: bit i of plane p is bit p of
    position i's count.

    words: is used up.
    """
    planes: list[int] = []
    while words:
        carries: list[int] = []
        while len(words) > 2:
            a, b, c = words.pop(), words.pop(), words.pop()
            either = a ^ b
            words.append(either ^ c)
            carries.append((a & b) | (either & c))
        if len(words) == 2:
            a, b = words
            words = [a ^ b]
            carries.append(a & b)
        planes.append(words[0])
        words = carries
    return planes


def pack(lanes: int, num_lanes: int) -> bytes:
    """Counters as stored bytes: little-endian lanes."""
    return lanes.to_bytes(num_lanes * LANE_BYTES, "little")


def unpack(stored: bytes) -> int:
    """Read the counters that `pack` has stored."""
    return int.from_bytes(stored, "little")


def counts(stored: bytes, num_bits: int) -> tuple[int, ...]:
    """The first `num_bits` counts of stored lanes."""
    return struct.unpack_from(f"<{num_bits}I", stored)
