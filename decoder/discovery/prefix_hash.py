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
_BLOCK = 1_024  # extensions that are scored together


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


@njit(inline="always", cache=True)
def _add_scores(low: Any, step: Any, cohort: Any, row: Any, places: Any, totals: Any) -> None:
    """Add to each total what its bucket of a cohort scores; two loops, so that both are fast."""
    size = np.uint64(len(row))
    for e in range(len(totals)):
        places[e] = _position(low[e], step[e], cohort, size)
    for e in range(len(totals)):
        totals[e] += row[places[e]]


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
    half = len(cohorts) // 2
    first, step = np.empty(_BLOCK, dtype=np.uint64), np.empty(_BLOCK, dtype=np.uint64)
    places, which = np.empty(_BLOCK, dtype=np.int64), np.empty(_BLOCK, dtype=np.int64)
    totals = np.empty(_BLOCK)
    for i in range(low, high):
        base, threshold, count = prefixes[i] << np.uint64(more), least, 0
        for start in range(0, 1 << more, _BLOCK):
            size = min(_BLOCK, (1 << more) - start)
            for e in range(size):
                one, two = _halves(base | np.uint64(start + e), num_bits)
                first[e], step[e], totals[e] = one, two | _ONE, 0.0
            for j in range(half):
                _add_scores(first[:size], step[:size], cohorts[j], scores[j], places, totals[:size])
            left = 0
            for e in range(size):
                if totals[e] >= half_least:
                    first[left], step[left], totals[left] = first[e], step[e], totals[e]
                    which[left] = start + e
                    left += 1
            for j in range(half, len(cohorts)):
                _add_scores(first[:left], step[:left], cohorts[j], scores[j], places, totals[:left])
            for e in range(left):
                if totals[e] < threshold:
                    continue
                if count == found.shape[1]:
                    threshold, count = _drop_half(found[i], values[i])
                found[i, count], values[i, count] = which[e], totals[e]
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
    """The extensions of prefixes by `more` bits, to `num_bits` bits, whose score is `least` or
    more.

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
