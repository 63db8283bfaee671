"""Positions of prefixes, and scores of all their extensions, as compiled loops.

The same numbers as `rappor_core.hashing.mmh3_positions` of `PrefixGroups.key`: MurmurHash3 x64 128
of at most eight bytes, then a SplitMix64 stream over the cohorts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from decoder.numerics.bit_tensor import compiled, run_in_chunks
from decoder.typing import Floats, Indices
from rappor_core.hashing import MIX_1, MIX_2

Prefixes = NDArray[np.uint64]
_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_F1, _F2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_M1, _M2 = np.uint64(MIX_1), np.uint64(MIX_2)
_ONE, _EIGHT, _BYTE = np.uint64(1), np.uint64(8), np.uint64(0xFF)
_S27, _S30, _S31, _S32, _S33 = (np.uint64(shift) for shift in (27, 30, 31, 32, 33))
_KEPT = 1_024  # best extensions of one prefix


@njit(inline="always", cache=True)
def _final(word: Any) -> Any:
    word = (word ^ (word >> _S33)) * _F1
    word = (word ^ (word >> _S33)) * _F2
    return word ^ (word >> _S33)


@njit(inline="always", cache=True)
def _halves(prefix: Any, num_bits: int) -> Any:
    """Both halves of the hash of a prefix's bytes, of which there are eight at most."""
    num_bytes = (num_bits + 7) // 8
    left = prefix << np.uint64(8 * num_bytes - num_bits)
    tail = np.uint64(0)
    for _ in range(num_bytes):  # big-endian bytes, read as a little-endian word
        tail = tail << _EIGHT | (left & _BYTE)
        left = left >> _EIGHT
    tail = tail * _C1
    tail = (tail << _S31) | (tail >> _S33)
    length = np.uint64(num_bytes)
    low = (tail * _C2) ^ length
    low, high = low + length, low + length + length
    low, high = _final(low), _final(high)
    low = low + high
    return low, high + low


@njit(inline="always", cache=True)
def _position(low: Any, step: Any, cohort: Any, size: Any) -> Any:
    word = low + (cohort + _ONE) * step
    word = (word ^ (word >> _S30)) * _M1
    word = (word ^ (word >> _S27)) * _M2
    return ((word ^ (word >> _S31)) >> _S32) * size >> _S32


@compiled
def _fill(
    low: int,
    high: int,
    prefixes: Prefixes,
    num_bits: int,
    cohorts: Prefixes,
    size: Any,
    positions: Any,
) -> None:
    for i in range(low, high):
        first, second = _halves(prefixes[i], num_bits)
        for j in range(len(cohorts)):
            positions[i, j] = _position(first, second | _ONE, cohorts[j], size)


def prefix_positions(
    prefixes: Prefixes, num_bits: int, cohorts: Indices, num_buckets: int
) -> Indices:
    """The bucket of each prefix of `num_bits` bits in each of some cohorts, (P, m)."""
    positions = np.empty((len(prefixes), len(cohorts)), dtype=np.intp)
    numbers = cohorts.astype(np.uint64)
    _fill(0, len(prefixes), prefixes, num_bits, numbers, np.uint64(num_buckets), positions)
    return positions


@compiled
def _extend(
    low: int,
    high: int,
    prefixes: Prefixes,
    num_bits: int,
    more: int,
    cohorts: Prefixes,
    scores: Any,
    least: float,
    half_least: float,
    found: Any,
    values: Any,
    counts: Any,
) -> None:
    """Score every extension by `more` bits of prefixes [low, high); keep the best of each."""
    size, half = np.uint64(scores.shape[1]), len(cohorts) // 2
    for i in range(low, high):
        base, threshold, count = prefixes[i] << np.uint64(more), least, 0
        for extension in range(1 << more):
            first, second = _halves(base | np.uint64(extension), num_bits)
            step, total = second | _ONE, 0.0
            for j in range(half):
                total += scores[j, _position(first, step, cohorts[j], size)]
            if total < half_least:
                continue
            for j in range(half, len(cohorts)):
                total += scores[j, _position(first, step, cohorts[j], size)]
            if total < threshold:
                continue
            if count == found.shape[1]:
                threshold, count = _drop_half(found[i], values[i])
            found[i, count], values[i, count] = extension, total
            count += 1
        counts[i] = count


@njit(cache=True)
def _drop_half(found: Any, values: Any) -> Any:
    """Keep the better half, in place; returns the least kept value and how many there are."""
    threshold, count = np.median(values), 0
    for place in range(len(values)):
        if values[place] > threshold:
            found[count], values[count] = found[place], values[place]
            count += 1
    return threshold, count


def best_extensions(
    prefixes: Prefixes,
    num_bits: int,
    more: int,
    cohorts: Indices,
    scores: Floats,
    least: float,
    half_least: float,
) -> tuple[Indices, Prefixes, Floats]:
    """Extensions by `more` bits, to `num_bits` bits, whose score is `least` or more.

    Args:
        prefixes: of num_bits - more bits, (P,).
        num_bits: of the extended prefixes.
        more: bits of an extension.
        cohorts: numbers of the cohorts, (m,).
        scores: what a bucket adds to the score of a prefix that falls on it, (m, k).
        least: smallest score that is kept; of one prefix the best 512 to 1,024 at most.
        half_least: smallest score over the first half of the cohorts.

    Returns:
        For each kept extension the place of its prefix, its bits and its score.
    """
    shape = (len(prefixes), _KEPT)
    found, values = np.empty(shape, dtype=np.int64), np.empty(shape)
    counts = np.zeros(len(prefixes), dtype=np.int64)
    numbers = cohorts.astype(np.uint64)
    arguments = (prefixes, num_bits, more, numbers, scores, least, half_least)
    run_in_chunks(_extend, len(prefixes), *arguments, found, values, counts)
    kept = np.arange(_KEPT)[None, :] < counts[:, None]
    parents = np.nonzero(kept)[0]
    bits = prefixes[parents] << np.uint64(more) | found[kept].astype(np.uint64)
    return parents, bits, values[kept]
