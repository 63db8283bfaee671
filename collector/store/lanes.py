"""Bit counts as one wide integer: k lanes of 32 bits, added with one addition.

A report's bits are spread so that bit i becomes the lowest bit of lane i; then the sum of the
spread integers holds every bit's count side by side. No carry crosses a lane below 2**32 reports.

Many reports are first summed bit-sliced: plane p of a stack holds, for each bit, bit p of its
count, and three words of one plane become one of it and one of the next (a carry-save adder, as in
Harley and Seal's population count: Warren, Hacker's Delight, 2nd edition, section 5-1).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

LANE_BYTES = 4
MAX_COUNT = (1 << 32) - 1
_FEW = 10  # below this many reports, spreading each is cheaper


class LaneAdder:
    """Adds the bits of reports. Holds only a table: for each byte, the 8 lanes of its bits."""

    def __init__(self) -> None:
        self._table = tuple(
            struct.pack("<8I", *((byte >> position) & 1 for position in range(8)))
            for byte in range(256)
        )

    def spread(self, bits: bytes) -> int:
        """The lanes of one report: bit i % 8 of byte i // 8 becomes 1 in lane i."""
        table = self._table
        return int.from_bytes(b"".join([table[byte] for byte in bits]), "little")

    def total(self, reports: Sequence[bytes]) -> int:
        """The lanes of reports of one length, fewer than 2**32 of them."""
        if len(reports) < _FEW:
            return sum(map(self.spread, reports))
        num_bytes = len(reports[0])
        planes = count_columns([int.from_bytes(bits, "little") for bits in reports])
        return sum(
            self.spread(plane.to_bytes(num_bytes, "little")) << position
            for position, plane in enumerate(planes)
        )


def count_columns(words: list[int]) -> list[int]:
    """Planes of the counts of each bit position: bit i of plane p is bit p of position i's count.

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
    """Lanes as stored, little-endian."""
    return lanes.to_bytes(num_lanes * LANE_BYTES, "little")


def unpack(stored: bytes) -> int:
    """The inverse of `pack`."""
    return int.from_bytes(stored, "little")


def counts(stored: bytes, num_bits: int) -> tuple[int, ...]:
    """The first `num_bits` counts of stored lanes."""
    return struct.unpack_from(f"<{num_bits}I", stored)
