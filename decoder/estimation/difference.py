"""Estimate how much each value's share differs between two windows, whatever else changed.

The differences are fitted to the difference of the windows' bit shares. What unlisted values gain
or lose stays in the residual. A value that has not changed has positions that are independent of
it: the null distribution of its score against the residual of a fit without it is known
(docs/method.md, (1)), also where one unlisted value changed much and cohorts are few. Only its own
sampling lies in those positions: it is taken out of the fit, and added to that distribution.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, stdtr, stdtrit

from decoder.errors import ConvergenceError
from decoder.estimation.least_squares import (
    Balance,
    CandidateSolver,
    centerd_columns,
    null_variance,
    unexplained,
)
from decoder.model.counts import Observed
from decoder.model.noise import RandomString
from decoder.model.null_distribution import null_tail
from decoder.typing import Floats

LOUDER = 3  # steps of the repetition that the noise of a difference shows
WORTH_TESTING = 0.1  # p-value by Student's t, above which the null distribution is not asked
MIN_LEFT = 0.01  # of a value's variance in a cohort, that is not its own sampling
NODES, _density = np.polynomial.hermite_e.hermegauss(41)
WEIGHTS = _density / _density.sum()
MIN_DEVIATE = 1e-3  # of a test: below it an error would be without bound


class ShareDifferences(NamedTuple):
    """Differences of shares, second window less first, with standard errors, (D,), and degrees
    of freedom."""

    shares: Floats
    std_errors: Floats
    freedom: float


class _Fitted(NamedTuple):
    """Posterior means e and covariance H of the differences, V_-i^-1 z_i (n, D), the balance.

    weighed: S^-1 z_i, S the noise of the cohorts, (n, D).  own: variance of each value's sampling
    in each cohort, (m, D), which is part of S.
    """

    means: Floats
    covariance: Floats
    directions: Floats
    columns: Floats
    balance: Balance
    weighed: Floats
    own: Floats


def fit_differences(first: Observed, second: Observed) -> ShareDifferences:
    """Estimate differences of shares by least squares on the difference of two windows' bit
    shares.

    Each difference has a belief N(0, 1), so that values which the cohorts cannot tell apart have
    wide errors instead of none. Where the residual is noisier than the windows' repetition says,
    reports are taken to repeat more: that widens the errors of heavy values, whose sampling
    repeats, more than those of the others. Errors reach as far as the null distribution says.

    Raises ConvergenceError where the values leave nothing of the rows over.
    """
    fitted = _fit(first, second)
    for _ in range(LOUDER):
        if fitted.balance.ratio <= 1:
            break
        repeats = first.noise.repetition_of(fitted.balance.ratio)
        first, second = first.repeated(repeats), second.repeated(repeats)
        fitted = _fit(first, second)
    cohorts, num_bits = first.bit_shares.shape
    freedom = float(max(cohorts * (num_bits - 1) - len(first.positions), 1))
    without = 1 - np.diag(fitted.covariance)  # the belief of each taken out of its posterior
    shares = fitted.means / without
    errors = np.sqrt(fitted.balance.ratio * np.diag(fitted.covariance) / without)
    return ShareDifferences(shares, _widened(fitted, first, shares, errors, freedom), freedom)


def noise_of_shares(observed: Observed) -> Floats:
    """Covariance of the noise (m, k, k), at the shares of a first, unweighted fit."""
    return observed.noise_of(_first_shares(observed))


def _first_shares(observed: Observed) -> Floats:
    columns = centerd_columns(observed.positions, observed.noise.random)
    shares = np.linalg.lstsq(columns, observed.centerd.ravel(), rcond=None)[0]
    return np.asarray(shares, dtype=np.float64)


def _own_sampling(observed: Observed) -> Floats:
    """Variance of each value's share in each cohort by its sampling, as in the noise, (m, D)."""
    shares = np.maximum(_first_shares(observed), 0.0)
    shares = shares / max(float(shares.sum()), 1.0)
    per_report = observed.noise.repetition * shares * (1 - shares)
    return np.asarray(per_report / observed.noise.reports[:, None])


def _fit(first: Observed, second: Observed) -> _Fitted:
    noise = noise_of_shares(first) + noise_of_shares(second)
    target, random = second.bit_shares - first.bit_shares, first.noise.random
    columns = centerd_columns(first.positions, random)
    values, freedom = columns.shape[1], target.size - len(target)
    if values >= freedom:
        raise ConvergenceError(
            f"the changes of {values:,} values are to be told apart by {freedom:,} numbers (the "
            "bits of each cohort but one), which leaves nothing to read the noise from; compare "
            "fewer values, or collect from more cohorts"
        )
    solver = CandidateSolver(noise, target, columns, np.ones(values), random)
    balance = unexplained(solver(0.0), 0.0, random)
    _, F, _, H = solver.factors(0.0)
    means = H @ (F.T @ target.ravel())
    own = _own_sampling(first) + _own_sampling(second)
    return _Fitted(means, H, (F @ H) / np.diag(H), columns, balance, F, own)


def _tail_without(fitted: _Fitted, i: int, random: RandomString) -> float:
    """The chance that a value without change has a score as far up as that of value i.

    The residual is V^-1 y, V without the belief in i and without its sampling, U C U' of V: the
    blocks of U are z_i of each cohort. To the score that sampling adds a variance of its own.
    Either sign of the change is turned upwards.
    """
    balance, H = fitted.balance.solution.residual, fitted.covariance
    (m, k), sign = balance.shape, np.sign(fitted.means[i])
    z, blocks = fitted.columns[:, i].reshape(m, k), fitted.weighed.reshape(m, k, -1)
    u = sign * (balance + fitted.means[i] * fitted.directions[:, i].reshape(m, k))
    sums = np.einsum("jk,jkd->dj", z, blocks)  # Z' S^-1 U, (D, m)
    others = H @ sums - np.outer(H[i], H[i] @ sums) / H[i, i]
    spread = np.diag(sums[i]) - sums.T @ others  # U' V^-1 U, (m, m)
    own = np.sqrt(fitted.own[:, i])
    part, axes = np.linalg.eigh(own[:, None] * spread * own)
    part = np.clip(part, 0.0, 1 - MIN_LEFT)
    along = axes.T @ (own * (z * u).sum(axis=1))
    back = own * (axes @ (along / (1 - part)))
    u = u + back[:, None] * blocks[:, :, i] - blocks @ (others @ back)
    variance = null_variance(u, random)
    score = (z * u).sum() / np.sqrt(variance)
    to_score = axes.T @ (own * spread.sum(axis=1)) / (1 - part)
    sampled = np.sqrt((to_score**2).sum() / variance)
    return float(ndtr(-null_tail(u, random).deviate(score - sampled * NODES)) @ WEIGHTS)


def _widened(
    fitted: _Fitted, observed: Observed, shares: Floats, errors: Floats, freedom: float
) -> Floats:
    """Errors with which Student's t is no surer of a change than the null distribution, (D,)."""
    errors, random = errors.copy(), observed.noise.random
    p = 2 * stdtr(freedom, -np.abs(shares / errors))
    for i in np.flatnonzero(p < WORTH_TESTING):
        exact = 2 * _tail_without(fitted, int(i), random)
        if exact > p[i]:
            deviate = -float(stdtrit(freedom, min(exact, 1.0) / 2))
            errors[i] = abs(shares[i]) / max(deviate, MIN_DEVIATE)
    return errors
