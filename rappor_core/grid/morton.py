"""Morton codes: the bits of two integers, interleaved, so that the parent of a cell is a prefix."""

from __future__ import annotations

_SPREAD = (  # step i moves the upper half of each group of bits away from the lower
    (16, 0x0000FFFF0000FFFF),
    (8, 0x00FF00FF00FF00FF),
    (4, 0x0F0F0F0F0F0F0F0F),
    (2, 0x3333333333333333),
    (1, 0x5555555555555555),
)


def interleave(low: int, high: int) -> int:
    """Put the bits of `low` in the even places and those of `high` in the odd ones.

    low, high: from 0 to 2**32 - 1.
    """
    return _spread(low) | _spread(high) << 1


def _spread(bits: int) -> int:
    for shift, mask in _SPREAD:
        bits = (bits | bits << shift) & mask
    return bits


def separate(code: int) -> tuple[int, int]:
    """The inverse of `interleave`: the integer of the even bits, then that of the odd ones."""
    return _gather(code), _gather(code >> 1)


def _gather(bits: int) -> int:
    bits &= _SPREAD[-1][1]
    masks = [mask for _, mask in reversed(_SPREAD[:-1])] + [0xFFFFFFFF]
    for (shift, _), mask in zip(reversed(_SPREAD), masks, strict=True):
        bits = (bits | bits >> shift) & mask
    return bits
