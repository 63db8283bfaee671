"""An empirical-Bayes prior for shares: a point mass at 0 and a ladder of normal components above 0.

share ~ w_0 delta_0 + sum_g w_g N(gamma_g, (.17 gamma_g)^2). The weights are fitted by expectation
maximization (EM). The components, called bumps, overlap enough (ratio 1.35) to follow any smooth
distribution of shares. Their centers are six standard deviations above 0, so a share below 0 has
probability 2e-9."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr

from decoder.typing import Floats

_FIRST_BUMP = 0.4  # the lowest center over the median standard error; lower shares look like 0
_RATIO = 1.35
_WIDTH = 0.17
_TOP = 1.1  # the highest center, relative to the largest estimate
_MAX_BUMPS = 64
_TINY = 1e-300
_SURELY_ABOVE = 6.0  # standard deviations above which the chance of a share below 0 is rounding
_ROWS = 10_000  # candidates per batch, to limit memory and fit in the cache


class Posterior(NamedTuple):
    """The posterior mean, variance and probability of 0 of each candidate's share, (M,) each."""

    mean: Floats
    variance: Floats
    local_fdr: Floats


@dataclass(frozen=True)
class SharePrior:
    """A prior of shares."""

    weights: Floats  # (G+1,); the first weight is for 0
    centers: Floats  # Of the bumps, (G,)

    @property
    def spreads(self) -> Floats:
        """The standard deviations of the bumps, (G,)."""
        return _WIDTH * self.centers

    def posterior(
        self, estimates: Floats, std_errors: Floats, null_z: Floats | None = None
    ) -> Posterior:
        """Combine the prior with unbiased estimates (M,); `null_z` are deviates at a share of 0."""
        null_z = estimates / std_errors if null_z is None else null_z
        parts = []
        for start in range(0, max(len(estimates), 1), _ROWS):
            rows = slice(start, start + _ROWS)
            weights = responsibilities(self, estimates[rows], std_errors[rows], null_z[rows])
            means, variances = self.given_bumps(estimates[rows], std_errors[rows])
            mean = (weights[:, 1:] * means).sum(axis=1)
            second = (weights[:, 1:] * (variances + means**2)).sum(axis=1)
            parts.append((mean, np.maximum(second - mean**2, 0.0), weights[:, 0]))
        return Posterior(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def held_below(
        self, estimates: Floats, std_errors: Floats, null_z: Floats
    ) -> Callable[[Floats], Floats]:
        """Return a function from limits (M,) >= 0 to the chance that each share is below its limit.

        The probability is conditional on a share above 0. Arguments as in `posterior`."""
        weights = responsibilities(self, estimates, std_errors, null_z)[:, 1:]
        weights = weights / np.maximum(weights.sum(axis=1, keepdims=True), _TINY)
        means, variances = self.given_bumps(estimates, std_errors)
        deviations = np.sqrt(variances)
        possible = np.maximum(ndtr(means / deviations), _TINY)  # no share is below 0

        def below(limits: Floats) -> Floats:
            above = ndtr((means - limits[:, None]) / deviations)
            return np.asarray((weights * (1 - above / possible)).sum(axis=1))

        return below

    def given_bumps(self, estimates: Floats, std_errors: Floats) -> tuple[Floats, Floats]:
        """Return posterior means and variances of the shares for each bump, (M, G) each."""
        noise, spread = std_errors[:, None] ** 2, self.spreads**2
        means = (estimates[:, None] * spread + self.centers * noise) / (spread + noise)
        return means, spread * noise / (spread + noise)


def ladder(estimates: Floats, std_errors: Floats) -> Floats:
    """Return the centers of the bumps, from .4 of the median error to the largest estimate."""
    lowest = lowest_bump(std_errors)
    highest = max(_TOP * float(estimates.max()), 2 * lowest)
    steps = min(int(np.ceil(np.log(highest / lowest) / np.log(_RATIO))), _MAX_BUMPS - 1)
    return np.asarray(lowest * _RATIO ** np.arange(steps + 1))


def lowest_bump(std_errors: Floats) -> float:
    """Return the center of the lowest bump of the prior."""
    return _FIRST_BUMP * float(np.median(std_errors))


def flat_prior(centers: Floats) -> SharePrior:
    """Return the initial prior for a fit, with equal mass on 0 and each bump."""
    half = np.full(len(centers), 0.5 / len(centers))
    return SharePrior(np.concatenate([[0.5], half]), centers)


def fit_weights(
    prior: SharePrior, estimates: Floats, std_errors: Floats, null_z: Floats, counts: Floats,
    steps: int
) -> SharePrior:  # fmt: skip
    """Fit the weights of the prior by EM, with one pseudo-count on 0.

    `counts` (M,) are the numbers of candidates that each row represents."""
    rows = likelihoods(prior, estimates, std_errors, null_z)
    return SharePrior(improved(prior.weights, rows, counts, steps), prior.centers)


def improved(weights: Floats, rows: Floats, counts: Floats, steps: int) -> Floats:
    """Run EM steps on the weights of one list, (G+1,), or of R lists, (G+1, R).

    `rows` (M, G+1) are from `likelihoods`; `counts` are the counts of each row, (M,) or (M, R)."""
    for _ in range(steps):
        scaled = counts / (rows @ weights)
        weights = weights * (rows.T @ scaled)
        weights[0] += 1.0
        weights = weights / weights.sum(axis=0)
    return weights


def responsibilities(
    prior: SharePrior, estimates: Floats, std_errors: Floats, null_z: Floats
) -> Floats:
    """Return the posterior weights of 0 and of each bump, (M, G+1); rows sum to 1."""
    weighted = likelihoods(prior, estimates, std_errors, null_z) * prior.weights
    return np.asarray(weighted / weighted.sum(axis=1, keepdims=True))


def likelihoods(prior: SharePrior, estimates: Floats, std_errors: Floats, null_z: Floats) -> Floats:
    """Return the density of each estimate under 0 and each bump, (M, G+1), up to row factors."""
    means = np.concatenate([[0.0], prior.centers])
    variances = std_errors[:, None] ** 2 + (_WIDTH * means) ** 2
    squares = (estimates[:, None] - means) ** 2 / variances
    # If the deviate of the test and estimate / error disagree, use the value nearer to 0: otherwise
    # a bump below the error would explain a value that is unusual only by the test.
    squares[:, 0] = np.minimum(null_z**2, squares[:, 0])
    logs = -0.5 * (squares + np.log(variances))
    # Include the probability that a share is above 0 given its bump and estimate: otherwise a bump
    # far wider than the error would explain an estimate far below 0 as a negative share.
    below = estimates < 0
    bump_means, variances = prior.given_bumps(estimates[below], std_errors[below])
    deviates = bump_means / np.sqrt(variances)
    above, near = np.zeros(deviates.shape), deviates < _SURELY_ABOVE
    above[near] = log_ndtr(deviates[near])
    logs[below, 1:] += above
    return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True)))
