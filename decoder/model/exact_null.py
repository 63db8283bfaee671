"""The exact null distribution of a score where cohorts are few.

Given the residual u, the score of a string that nobody holds is a sum over cohorts of the entries
of u at a random set of bits. In one cohort these sets can be listed, each with its chance. With
several cohorts the sums add up: their distributions are put on a fine grid and convolved.
"""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import factorial, stirling2

from decoder.model.noise import RandomString
from decoder.typing import Floats

FEW_COHORTS = 31  # up to which the distribution is exact; from more cohorts sums are smooth
_MOST_SETS = 20_000  # of bits that a string may set in a cohort
_BINS = 16_384  # of the grid, over the whole range of the score
_ROUNDING = 1e-11  # below it a chance from a convolution is rounding
_SAME = 1e-9  # of a score's deviation: sums that are this near are one


class UpperTail(NamedTuple):
    """The exact null distribution: rising scores (T,), and the chance that a string nobody holds
    reaches each."""

    scores: Floats
    chances: Floats


def can_be_listed(num_cohorts: int, random: RandomString) -> bool:
    """Whether there are few enough cohorts and sets of bits to list all bit sets of a string."""
    bits = random.num_bits
    sets = sum(comb(bits, size) for size in range(1, min(random.num_hashes, bits) + 1))
    return num_cohorts <= FEW_COHORTS and sets <= _MOST_SETS


def upper_tail(residual: Floats, random: RandomString) -> UpperTail:
    """P(z'u >= x) at all x that occur (one cohort), or at the points of a grid. residual: (m, k).

    On the grid a chance is that of a score lower by 1.7 standard deviations of what the grid rounds
    off, hence seldom too small. Those below 1e-11, which the convolution loses, are left out.
    """
    sums, chances = _sets_of_bits(residual, random)
    sums = sums - random.mean * residual.sum(axis=1, keepdims=True)
    if len(residual) == 1:
        return _of_atoms(sums[0], chances)
    return _of_grid(sums, chances)


def _sets_of_bits(residual: Floats, random: RandomString) -> tuple[Floats, Floats]:
    """The sum of u over each set of bits that a string may set, (m, B), and its chance, (B,).

    h positions hit exactly r given bits with probability S(h, r) r! / k^h, S the Stirling numbers
    of the second kind.
    """
    k, h = random.num_bits, random.num_hashes
    sums, chances = [], []
    for size in range(1, min(h, k) + 1):
        sets = np.array(list(combinations(range(k), size)), dtype=np.intp)
        sums.append(residual[:, sets].sum(axis=2))
        chances.append(np.full(len(sets), stirling2(h, size) * factorial(size) / float(k) ** h))
    return np.concatenate(sums, axis=1), np.concatenate(chances)


def _of_atoms(sums: Floats, chances: Floats) -> UpperTail:
    """Of one cohort: at the sums themselves, each counted with those that rounding tells apart."""
    order = np.argsort(sums, kind="stable")
    sums, chances = sums[order], chances[order]
    spread = float(np.sqrt((chances * sums**2).sum()))
    starts = np.concatenate([[True], np.diff(sums) > _SAME * spread])
    reached = np.cumsum(chances[::-1])[::-1]
    return UpperTail(sums[starts], reached[starts])


def _of_grid(sums: Floats, chances: Floats) -> UpperTail:
    """Of several cohorts: the product of the transforms of their distributions on a grid."""
    lowest, cohorts = sums.min(axis=1, keepdims=True), len(sums)
    step = float((sums - lowest).max(axis=1).sum()) / (_BINS - cohorts)
    bins = np.rint((sums - lowest) / step).astype(np.intp)
    size = next_fast_len(_BINS + cohorts, real=True)
    product = np.ones(size // 2 + 1, dtype=np.complex128)
    for row in bins:
        product *= rfft(np.bincount(row, chances, minlength=size))
    reached = np.cumsum(irfft(product, size)[::-1])[::-1]
    scores = float(lowest.sum()) + step * (np.arange(size) + cohorts**0.5 / 2)
    known = (reached > _ROUNDING) & (reached < 1 - _ROUNDING)
    return UpperTail(scores[known], reached[known])
