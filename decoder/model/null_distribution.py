"""The full null distribution of a score, exact or by a saddlepoint approximation.

Given the residual u, the score of a string that no one has is a sum over cohorts of the entries of
u at h random positions, each bit counted once. One heavy unlisted value leaves a few large entries
in u, which skews the score. With few cohorts, the sets of bits are enumerated and their
distributions convolved; otherwise r* of Barndorff-Nielsen (1986) is computed from the cumulants of
the sum (docs/method.md)."""

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import factorial, ndtri, stirling2

from decoder.model.noise import RandomString
from decoder.typing import Floats

FEW_COHORTS = 31  # the maximum for the exact distribution; with more cohorts, sums are smooth
_MAX_SETS = 20_000  # sets of bits that a string may set in a cohort
_BINS = 16_384  # of the grid, over the full range of the score
_LOST = 1e-11  # a smaller probability from a convolution is rounding
_SAME = 1e-9  # sums closer than this, in standard deviations, are equal
_TILTS = np.geomspace(0.3, 60, 40)
_ROUNDING = 1e-12  # relative to the squares of a residual
_ALMOST_SURE = 1 - 1e-12  # the maximum probability of a score, so that its deviate is finite
_MIN_VARIANCE = 0.02  # of the tilted sum: with less, the sum is at the end of its range


@dataclass(frozen=True)
class NullTail:
    """The null distribution: a table of standardized scores and equivalent normal deviates.

    A score and its deviate have the same upper tail. Both increase, with slope 1 beyond the first
    and the last point."""

    scores: Floats
    deviates: Floats

    def deviate(self, z: Floats) -> Floats:
        """Return the normal deviates of standardized scores (M,)."""
        return _extended(z, self.scores, self.deviates)

    def score(self, deviate: Floats) -> Floats:
        """Return the scores for normal deviates; the inverse of `deviate`."""
        return _extended(deviate, self.deviates, self.scores)


NORMAL_TAIL = NullTail(np.array([0.0, 1.0]), np.array([0.0, 1.0]))


def null_tail(residual: Floats, random: RandomString) -> NullTail:
    """Tabulate the distribution of z' u over random strings, for a residual u (m, k)."""
    variance = float(_cumulants(residual, random, np.zeros(1))[2][0])
    if variance <= _ROUNDING * float((residual**2).sum()):
        return NORMAL_TAIL
    scale = float(np.sqrt(variance))
    bits, hashes = random.num_bits, random.num_hashes
    sets = sum(comb(bits, size) for size in range(1, min(hashes, bits) + 1))
    if len(residual) <= FEW_COHORTS and sets <= _MAX_SETS:
        scores, reached = _listed_tail(residual / scale, random)
        return _tail(scores, -ndtri(np.minimum(reached, _ALMOST_SURE)))
    s = np.concatenate([-_TILTS[::-1], _TILTS])
    parts = s, *_cumulants(residual / scale, random, s)
    # r* = w + log(v / w) / w at x = K'(s), without points at the end of the sum's range
    s, K, x, curvature = (part[parts[3] > _MIN_VARIANCE] for part in parts)
    w, v = np.sign(s) * np.sqrt(2 * (s * x - K)), s * np.sqrt(curvature)
    return _tail(x, w + np.log(v / w) / w)


def _tail(scores: Floats, deviates: Floats) -> NullTail:
    if len(scores) < 2:
        return NORMAL_TAIL
    rising = np.maximum.accumulate(deviates) + 1e-9 * np.arange(len(scores))
    return NullTail(scores, rising)


def _extended(x: Floats, points: Floats, values: Floats) -> Floats:
    inside = np.interp(x, points, values)
    return np.asarray(inside + np.maximum(x - points[-1], 0) + np.minimum(x - points[0], 0))


def _cumulants(
    residual: Floats, random: RandomString, tilts: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return K(s) = sum_j log E exp(s z_j' u_j) over random strings, K' and K'', (T,) each.

    A string sets r given bits and no other with probability p_r = S(h, r) r! / k^h, S the Stirling
    numbers of the second kind: E exp(s x_j' u_j) = sum_r p_r e_r, e_r the elementary symmetric
    polynomials of exp(s u_jb), relative to the cohort's largest. NaN if a term underflows."""
    k, h = random.num_bits, random.num_hashes
    sizes = np.arange(1, min(h, k) + 1)
    chances = stirling2(h, sizes) * factorial(sizes) / float(k) ** h
    powers = tilts[:, None, None] * residual
    largest = powers.max(axis=2, keepdims=True)
    scale = largest * np.where(largest > 0, sizes[-1], 1)
    sums = _symmetric(np.exp(powers - largest), residual, len(sizes) + 1)
    weights = chances * np.exp(sizes * largest - scale)
    E, first, second = ((weights * part[:, :, 1:]).sum(axis=2) for part in sums)
    E = np.where(E > 0, E, np.nan)
    first, second = first / E, second / E
    center = random.mean * float(residual.sum())
    generating = (np.log(E) + scale[:, :, 0]).sum(axis=1) - tilts * center
    return generating, first.sum(axis=1) - center, (second - first**2).sum(axis=1)


def _symmetric(weights: Floats, residual: Floats, count: int) -> tuple[Floats, Floats, Floats]:
    """Return e_0 ... e_(count-1) of `weights` (T, m, k) = exp(s u), d/ds and d2/ds2, (T, m, count).

    Recursion: e_r over the bits up to b is e_r plus w_b e_(r-1) over the earlier bits."""
    e = np.zeros((*weights.shape[:2], count))
    e[:, :, 0] = 1.0
    first, second = np.zeros_like(e), np.zeros_like(e)
    for bit in range(weights.shape[2]):
        w, u = weights[:, :, bit, None], residual[:, bit, None]
        before, slope, bend = e[:, :, :-1], first[:, :, :-1], second[:, :, :-1]
        second[:, :, 1:] += w * (bend + 2 * u * slope + u * u * before)
        first[:, :, 1:] += w * (slope + u * before)
        e[:, :, 1:] += w * before
    return e, first, second


def _listed_tail(residual: Floats, random: RandomString) -> tuple[Floats, Floats]:
    """Return P(z'u >= x) at all possible x (one cohort) or at the points of a grid, for u (m, k).

    On the grid, scores are raised by 1.7 standard deviations of the rounding to the grid."""
    k, h, cohorts = random.num_bits, random.num_hashes, len(residual)
    parts, odds = [], []
    for size in range(1, min(h, k) + 1):
        sets = np.array(list(combinations(range(k), size)), dtype=np.intp)
        parts.append(residual[:, sets].sum(axis=2))
        odds.append(np.full(len(sets), stirling2(h, size) * factorial(size) / float(k) ** h))
    sums, chances = np.concatenate(parts, axis=1), np.concatenate(odds)
    sums = sums - random.mean * residual.sum(axis=1, keepdims=True)
    if cohorts == 1:  # at the sums themselves, after merging sums that differ only by rounding
        order = np.argsort(sums[0], kind="stable")
        atoms, chances = sums[0][order], chances[order]
        spread = float(np.sqrt((chances * atoms**2).sum()))
        starts = np.concatenate([[True], np.diff(atoms) > _SAME * spread])
        return atoms[starts], np.cumsum(chances[::-1])[::-1][starts]
    lowest = sums.min(axis=1, keepdims=True)
    step = float((sums - lowest).max(axis=1).sum()) / (_BINS - cohorts)
    size = next_fast_len(_BINS + cohorts, real=True)
    product = np.ones(size // 2 + 1, dtype=np.complex128)
    for row in np.rint((sums - lowest) / step).astype(np.intp):
        product *= rfft(np.bincount(row, chances, minlength=size))
    reached = np.cumsum(irfft(product, size)[::-1])[::-1]
    scores = float(lowest.sum()) + step * (np.arange(size) + cohorts**0.5 / 2)
    usable = (reached > _LOST) & (reached < 1 - _LOST)
    return scores[usable], reached[usable]
