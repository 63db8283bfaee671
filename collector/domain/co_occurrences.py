"""Count linked reports: each bit of both metrics, and each pair of bits that are set together.

The counters of an association are those of a report whose bits are, for k1 and k2 bits: the first
report's, the second one's, then for each bit a of the first the k2 pairs of it with the second's.
"""

from __future__ import annotations


class BitPairs:
    """Joins two linked reports, of k1 and k2 bits, to one: their bits, then a bit for each pair
    of theirs, set where both are. The counters of an association count these."""

    __slots__ = ("_digits", "num_bits", "num_bytes", "shape")

    def __init__(self, shape: tuple[int, int]) -> None:
        """shape: k1 and k2."""
        first, second = self.shape = shape
        self.num_bits = first + second + first * second
        self.num_bytes = (self.num_bits + 7) // 8
        self._digits = {ord("0"): "0" * second, ord("1"): "1".rjust(second, "0")}

    def of(self, first: bytes, second: bytes) -> bytes:
        """The joined report of `first` and `second`, all little-endian; spare bits are 0.

        Bit a of the first is moved to a * k2; times the second's bits that gives every pair,
        without a carry, as these are below 2**k2.
        """
        one, two = int.from_bytes(first, "little"), int.from_bytes(second, "little")
        spread = int(format(one, "b").translate(self._digits), 2)
        k1, k2 = self.shape
        whole = one | two << k1 | spread * two << (k1 + k2)
        return whole.to_bytes(self.num_bytes, "little")
