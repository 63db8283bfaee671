"""Scores of prefixes from unbiased bucket shares, computed by compiled loops.

A bucket of a cohort contains the shares of all strings whose prefix hashes to it: the named
strings, and all other strings together, which are spread evenly over the buckets. Positions are
those of `rappor_core.hashing.mmh3_positions` of `PrefixGroups.key`: MurmurHash3 x64 128 of at most
eight bytes, then a SplitMix64 stream over the cohorts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

from decoder.model.noise import BitNoise
from decoder.numerics.bit_tensor import compiled, run_in_chunks
from decoder.typing import Floats, Indices
from rappor_core.hashing import MIX_1, MIX_2

Prefixes = NDArray[np.uint64]
_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_F1, _F2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_M1, _M2 = np.uint64(MIX_1), np.uint64(MIX_2)
_ONE, _EIGHT, _BYTE = np.uint64(1), np.uint64(8), np.uint64(0xFF)
_S27, _S30, _S31, _S32, _S33 = (np.uint64(shift) for shift in (27, 30, 31, 32, 33))
_KEPT = 1_024  # maximum number of kept extensions of one prefix
_BLOCK = 1_024  # extensions that are scored together


@njit(inline="always", cache=True)
def _final(word: Any) -> Any:
    word = (word ^ (word >> _S33)) * _F1
    word = (word ^ (word >> _S33)) * _F2
    return word ^ (word >> _S33)


@njit(inline="always", cache=True)
def _halves(prefix: Any, num_bits: int) -> Any:
    """Return both halves of the hash of a prefix of at most eight bytes."""
    num_bytes = (num_bits + 7) // 8
    word = prefix << np.uint64(8 * num_bytes - num_bits)
    tail = np.uint64(0)
    for _ in range(num_bytes):  # big-endian bytes, read as a little-endian word
        tail = tail << _EIGHT | (word & _BYTE)
        word = word >> _EIGHT
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
def prefix_positions(
    prefixes: Prefixes, num_bits: int, cohorts: Indices, num_buckets: int
) -> Indices:
    """Compute the bucket of each prefix of `num_bits` bits in each cohort, (P, m)."""
    buckets, size = np.empty((len(prefixes), len(cohorts)), np.intp), np.uint64(num_buckets)
    for i in range(len(prefixes)):
        low, step = _halves(prefixes[i], num_bits)
        for j in range(len(cohorts)):
            buckets[i, j] = _position(low, step | _ONE, np.uint64(cohorts[j]), size)
    return buckets


@njit(inline="always", cache=True)
def _add_scores(low: Any, step: Any, cohort: Any, row: Any, places: Any, totals: Any) -> None:
    """Add to each total the score of its bucket in a cohort. Two separate loops are faster."""
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
    best: Any,
    values: Any,
    counts: Any,
) -> None:
    """Score all extensions of prefixes [low, high) by `more` bits; keep each prefix's best."""
    half = len(cohorts) // 2
    first, step = np.empty(_BLOCK, dtype=np.uint64), np.empty(_BLOCK, dtype=np.uint64)
    places, which = np.empty(_BLOCK, dtype=np.int64), np.empty(_BLOCK, dtype=np.int64)
    totals = np.empty(_BLOCK)
    for i in range(low, high):
        base, threshold, count = prefixes[i] << np.uint64(more), least, 0
        for start in range(0, 1 << more, _BLOCK):
            size = min(_BLOCK, (1 << more) - start)
            for e in range(size):
                low_half, high_half = _halves(base | np.uint64(start + e), num_bits)
                first[e], step[e], totals[e] = low_half, high_half | _ONE, 0.0
            for j in range(half):
                _add_scores(first[:size], step[:size], cohorts[j], scores[j], places, totals[:size])
            n = 0
            for e in range(size):
                if totals[e] >= half_least:
                    first[n], step[n], totals[n] = first[e], step[e], totals[e]
                    which[n] = start + e
                    n += 1
            for j in range(half, len(cohorts)):
                _add_scores(first[:n], step[:n], cohorts[j], scores[j], places, totals[:n])
            for e in range(n):
                if totals[e] < threshold:
                    continue
                if count == best.shape[1]:
                    threshold, count = _drop_half(best[i], values[i])
                best[i, count], values[i, count] = which[e], totals[e]
                count += 1
        counts[i] = count


@njit(cache=True)
def _drop_half(best: Any, values: Any) -> Any:
    threshold, count = np.median(values), 0
    for place in range(len(values)):
        if values[place] > threshold:
            best[count], values[count] = best[place], values[place]
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
    """Find the extensions of prefixes by `more` bits whose score is at least `least`.

    Args:
        prefixes: The prefixes of num_bits - more bits, (P,).
        num_bits: The length of the extended prefixes.
        more: The number of bits in an extension.
        cohorts: The numbers of the cohorts, (m,).
        scores: The amount that each bucket adds to the score of its prefixes, (m, k).
        least: The minimum score. At most the best 512 to 1,024 extensions of a prefix are kept.
        half_least: The minimum score over the first half of the cohorts.

    Returns:
        For each kept extension, the index of its prefix, the extended prefix, and its score.
    """
    shape = (len(prefixes), _KEPT)
    best, values = np.empty(shape, dtype=np.int64), np.empty(shape)
    counts = np.zeros(len(prefixes), dtype=np.int64)
    numbers = cohorts.astype(np.uint64)
    arguments = (prefixes, num_bits, more, numbers, scores, least, half_least)
    run_in_chunks(_extend, len(prefixes), *arguments, best, values, counts)
    filled = np.arange(_KEPT)[None, :] < counts[:, None]
    parents = np.nonzero(filled)[0]
    bits = prefixes[parents] << np.uint64(more) | best[filled].astype(np.uint64)
    return parents, bits, values[filled]


CLIP = 2.5  # the maximum contribution of one bucket, in standard deviations
STRONG = 6.0  # standard errors, above which a prefix makes its buckets noisier
ENTERS = 3.5  # the minimum score of a prefix that enters a pursuit's fit
MEDIAN_SQUARE = 0.4549364  # the median of the square of a standard normal variable
_RIDGE = 1e-9  # relative to the diagonal; prefixes that share every bucket are indistinguishable


@dataclass(frozen=True)
class GroupShares:
    """The bucket shares (m, k) of one group's cohorts with reports."""

    cohorts: Indices  # The numbers of the cohorts, (m,)
    reports: Floats  # The number of reports of each cohort, (m,)
    shares: Floats
    num_bits: int  # The length of its prefixes

    def scores(self) -> Floats:
        """Return each bucket's contribution to a prefix's score, (m, k); the sum has unit variance.

        Contributions are clipped, so that a heavy string does not lift all prefixes in its buckets.
        """
        scaled = (
            (self.shares - 1 / self.shares.shape[1]) * np.sqrt(self.reports)[:, None] / self._spread
        )
        clipped = np.clip(scaled, -CLIP, CLIP)
        clipped = (clipped - clipped.mean()) / clipped.std()
        return np.asarray(clipped * np.sqrt(self.reports / self.reports.sum())[:, None])

    @cached_property
    def _spread(self) -> float:
        squares = (self.shares - 1 / self.shares.shape[1]) ** 2 * self.reports[:, None]
        return float(np.sqrt(np.median(squares) / MEDIAN_SQUARE))

    def fit(
        self, prefixes: Prefixes, noise: BitNoise | None = None, repetition: float = 1.0
    ) -> Fit:
        """Fit distinct prefixes and all other strings together by weighted least squares.

        Variances are estimated from the residuals. A strong prefix's bucket varies more than
        other buckets; a second fit allows for that.

        Args:
            prefixes: The prefixes, (P,).
            noise: The noise of one bit; None to treat all buckets as equally noisy.
            repetition: The repetition rho of the reports.
        """

        def solved(weights: Floats) -> tuple[Floats, Floats, float, float]:
            """Return shares, diagonal of the inverse normal matrix, residual variance, skewness."""
            normal, right = self._equations(design, weights)
            normal[np.diag_indices(len(normal))] *= 1 + _RIDGE
            inverse = np.asarray(np.linalg.inv(normal), dtype=np.float64)
            solution = inverse @ right
            residual = self.shares.ravel() - design.T @ solution[:-1]
            residual = (residual - solution[-1] * (1 / self.shares.shape[1])) * np.sqrt(weights)
            variance = float((residual**2).sum()) / max(1, len(residual) - len(solution))
            third = float((residual**3).mean()) / variance**1.5
            return solution[:-1], np.diag(inverse)[:-1], variance, third

        design, plain = self._design(prefixes), self._weights
        shares, inverse, variance, third = solved(plain)
        strong = shares > STRONG * np.sqrt(variance * inverse)
        if noise is not None and strong.any():
            mass = np.minimum(np.clip(shares * strong, 0, 1) @ design, 1.0)
            sampled = noise.mechanism_variance(mass, repetition) + repetition * mass * (1 - mass)
            empty = noise.mechanism_variance(np.zeros(1), repetition)
            shares, others, variance, third = solved(plain / (sampled / empty))
            # if no one had a strong prefix, its buckets would vary like the others
            inverse = np.where(strong, inverse, others)
        total = float(self.reports.sum())
        skewness = third * float((self.reports**1.5).sum()) / total**1.5
        return Fit(shares, np.sqrt(variance * inverse), skewness, total)

    def pursue(self, prefixes: Prefixes, most: int) -> Floats:
        """Score distinct prefixes (P,), most of which are wrong, by orthogonal matching pursuit.

        At most `most` times, the best prefix enters the fit, and its contribution is subtracted
        from all others (Pati, Rezaiifar, Krishnaprasad 1993). A joint fit of all prefixes would
        divide a true prefix's share among the wrong prefixes that share its buckets."""
        normal, right = self._equations(self._design(prefixes), self._weights)
        unit = self._spread * np.sqrt(np.diag(normal)[:-1])
        fitted = [len(prefixes)]
        while True:
            chosen = np.ix_(fitted, fitted)
            solved = np.linalg.solve(normal[chosen], right[fitted])
            z = (right - normal[:, fitted] @ solved)[:-1] / unit
            z[fitted[1:]] = -np.inf
            best = int(np.argmax(z))
            if z[best] < ENTERS or len(fitted) > most:
                break
            fitted.append(best)
        errors = self._spread * np.sqrt(np.diag(np.linalg.inv(normal[chosen])))
        z[fitted[1:]] = (solved / errors)[1:]
        return np.asarray(z)

    @property
    def _weights(self) -> Floats:
        return np.repeat(self.reports, self.shares.shape[1])

    def _design(self, prefixes: Prefixes) -> sparse.csr_array:
        size, cohorts = self.shares.shape[1], len(self.cohorts)
        positions = prefix_positions(prefixes, self.num_bits, self.cohorts, size)
        columns = (positions + np.arange(cohorts) * size).ravel()
        rows = columns, np.arange(0, len(columns) + 1, cohorts)
        shape = (len(prefixes), self.shares.size)
        return sparse.csr_array((np.ones(len(columns)), *rows), shape=shape)

    def _equations(self, design: sparse.csr_array, weights: Floats) -> tuple[Floats, Floats]:
        """Return the normal matrix and right-hand side of a fit; the other strings are last."""
        size, values = self.shares.shape[1], self.shares.ravel()
        weighted = design.copy()
        weighted.data *= weights[design.indices]
        normal = np.empty((design.shape[0] + 1,) * 2)
        normal[:-1, :-1] = (weighted @ design.T).toarray()
        normal[-1, :-1] = normal[:-1, -1] = weighted.sum(axis=1) / size
        normal[-1, -1] = weights.sum() / size**2
        return normal, np.append(weighted @ values, weights @ values / size)


@dataclass(frozen=True)
class Fit:
    """Fitted shares of prefixes and their standard errors under a share of 0, (P,) each."""

    shares: Floats
    null_errors: Floats
    skewness: float  # Of a fitted share if no one has the prefix
    num_reports: float

    @property
    def z(self) -> Floats:
        """The shares divided by their standard errors."""
        return np.asarray(self.shares / self.null_errors)
