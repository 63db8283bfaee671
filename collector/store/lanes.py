"""Bit counts as one wide integer: k lanes of 32 bits, added with one addition.

A report's bits are spread so that bit i becomes the lowest bit of lane i; then the sum of the
spread integers holds every bit's count side by side. No carry crosses a lane below 2**32 reports.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

LANE_BYTES = 4
MAX_COUNT = (1 << 32) - 1


def spread_table() -> tuple[bytes, ...]:
    """For each byte, the 8 lanes of its bits: entry b is 32 bytes long."""
    return tuple(
        struct.pack("<8I", *((byte >> position) & 1 for position in range(8)))
        for byte in range(256)
    )


class LaneAdder:
    """Adds the bits of reports. Holds only the table."""

    def __init__(self) -> None:
        self._table = spread_table()

    def spread(self, bits: bytes) -> int:
        """The lanes of one report: bit i % 8 of byte i // 8 becomes 1 in lane i."""
        table = self._table
        return int.from_bytes(b"".join([table[byte] for byte in bits]), "little")

    def total(self, reports: Iterable[bytes]) -> int:
        """The lanes of several reports of the same length, fewer than 2**32 of them."""
        return sum(map(self.spread, reports))


def pack(lanes: int, num_lanes: int) -> bytes:
    """Lanes as stored, little-endian."""
    return lanes.to_bytes(num_lanes * LANE_BYTES, "little")


def unpack(stored: bytes) -> int:
    """The inverse of `pack`."""
    return int.from_bytes(stored, "little")


def counts(stored: bytes, num_bits: int) -> tuple[int, ...]:
    """The first `num_bits` counts of stored lanes."""
    return struct.unpack_from(f"<{num_bits}I", stored)
