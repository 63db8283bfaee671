"""Estimation with one bit a value (basic RAPPOR, a boolean): each share is read from its own
bit.

Nothing has to be distinguished, so there is no design matrix to invert: the estimate is the
debiased frequency of the bit, and its variance is a known function of the share. Interval: the
score interval (Wilson 1927), which inverts the test and behaves for shares near 0 and 1.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, ndtri, ndtri_exp

from decoder.model.noise import BitNoise, CohortNoise
from decoder.typing import Floats, Indices


class DirectFit(NamedTuple):
    """For each bit: share, standard error, score interval, z-score under a share of 0; (k,)."""

    estimates: Floats
    std_errors: Floats
    low: Floats
    high: Floats
    z: Floats


def fit_direct(
    bit_shares: Floats, reports: Floats, noise: BitNoise, repetition: float, level: float
) -> DirectFit:
    """Average each bit's debiased share (m, k) over the cohorts by their reports (m,). repetition:
    rho = sum r^2 / sum r over devices, >= 1."""
    total = float(reports.sum())
    estimates = reports @ bit_shares / total
    # N Var(estimate) = v0 + v1 t + v2 t^2 at share t: the mechanism's noise is linear in t,
    # sampling adds rho t (1 - t).
    zero, one = noise.mechanism_variance(np.array([0.0, 1.0]), repetition).tolist()
    constant, linear, square = zero, one - zero + repetition, -repetition
    clipped = np.clip(estimates, 0.0, 1.0)
    variance = (constant + linear * clipped + square * clipped**2) / total
    z = np.asarray(estimates / np.sqrt(constant / total))
    if repetition <= 1:  # a binomial count's own tail: heavier where few lies are expected
        shown, chance = np.rint(total * (noise.p_star + noise.gap * estimates)), noise.p_star
        if noise.gap < 0:
            shown, chance = total - shown, 1 - chance
        with np.errstate(divide="ignore"):
            exact = -ndtri_exp(np.log(betainc(shown, total - shown + 1, chance)))  # P(X >= shown)
        z = np.where(np.isfinite(exact), exact, z)
    # All t with (estimate - t)^2 <= z^2 Var(t): the roots of a quadratic.
    scale = float(ndtri((1 - level) / 2)) ** 2 / total
    constant, linear, square = (scale * part for part in (constant, linear, square))
    a, b, c = 1 - square, -2 * estimates - linear, estimates**2 - constant
    root = np.sqrt(np.maximum(b**2 - 4 * a * c, 0.0))
    low, high = (np.clip((-b + sign * root) / (2 * a), 0, 1) for sign in (-1, 1))
    return DirectFit(estimates, np.sqrt(variance), low, high, z)


Directions: TypeAlias = Callable[[Indices], Floats]  # of candidates (B,): (n, B)


def own_directions(noise: CohortNoise, bits: NDArray[np.integer[Any]], signs: Floats) -> Directions:
    """The direction in which an estimate reads its own bit: the mean over cohorts of bits (m,
    M), or of the complement where `signs` (M,) are -1."""
    weights, num_bits = noise.reports / noise.reports.sum(), noise.random.num_bits

    def directions(candidates: Indices) -> Floats:
        found = np.zeros((len(weights), num_bits, len(candidates)))
        cohorts, numbers = np.arange(len(weights))[:, None], np.arange(len(candidates))
        found[cohorts, bits[:, candidates], numbers] = weights[:, None] * signs[candidates]
        return found.reshape(-1, len(candidates))

    return directions
