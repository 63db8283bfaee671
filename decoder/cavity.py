"""The cavity estimator: each candidate is scored against a fit of all the others.

A string that nobody holds has positions that are independent of the data and of every other
candidate's. So whatever vector u is computed without it, its score z_i' u has mean 0 and variance
sum_j u_j' C u_j. We may therefore use a strong fit for the others (sparse, positive, with a prior
learnt from the data) and still know the null distribution of each score, whatever is missing from
the list. The fit is expectation propagation (Minka 2001); the leave-one-out ("cavity")
quantities are its by-product. Derivation: docs/decoding.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decoder.bit_tensor import Positions, scatter_sums
from decoder.gls import Balance, balance, candidate_solver, centred_sums, row_solver
from decoder.mixture import SharePrior
from decoder.noise import RandomString
from decoder.sites import Scores, Sites, refit_prior

Floats = NDArray[np.float64]

MAX_ITERATIONS = 20
MIN_ITERATIONS = 9
TOLERANCE = 0.03  # of a z-score
REFRESH_NOISE = frozenset({3, 6})
REBUILD_LADDER = frozenset({2, 3, 4, 5, 6})
FREEZE_ACTIVE_AFTER = 14
FULL_FIT_PER_ROW = 4  # candidates a row up to which all take part in the fit
FULL_FIT_ROWS = 1536  # rows up to which a fit in the space of the rows is quick


@dataclass(frozen=True)
class Question:
    """What is fitted.

    centred: debiased bit shares less their mean under random strings, y - a, (m, k).
    positions: index tensor of M candidates, (M, m, h).
    noise_of: shares (M,) -> covariance of the noise of each cohort, (m, k, k).
    may_be_full: whether all candidates may take part in the fit.
    """

    centred: Floats
    positions: Positions
    random: RandomString
    noise_of: Callable[[Floats], Floats]
    may_be_full: bool = True

    @property
    def full(self) -> bool:
        """Whether all candidates take part in the fit, or only the probable ones."""
        candidates, rows = len(self.positions), self.centred.size
        affordable = candidates <= FULL_FIT_PER_ROW * rows and rows <= FULL_FIT_ROWS
        return self.may_be_full and (candidates <= rows or affordable)


@dataclass(frozen=True)
class CavityFit:
    """What the fit says of M candidates.

    scores: unbiased shares and their standard errors, (M,).  prior: of shares, as fitted.
    balance: residual u = V^-1 (y - Z m), tau (squared shares of unlisted strings), kappa >= 1.
    taking_part: posterior means of those in the fit, 0 for the others, (M,).
    freedom: degrees of freedom left in the residual, >= 1.
    iterations: how many were run; converged: the z-scores had settled.
    full: all candidates took part in the fit.
    """

    scores: Scores
    prior: SharePrior
    balance: Balance
    taking_part: Floats
    freedom: float
    iterations: int
    converged: bool
    full: bool


def fit_cavity(question: Question) -> CavityFit:
    """Score all candidates. Deterministic: no random numbers, fixed orders of summation."""
    sites, limit = Sites.none(len(question.positions)), question.centred.size // 2
    noise = question.noise_of(sites.shrunken)
    fitted = _solve(question, noise, sites, 0.0)
    scores = _leave_one_out(question, fitted, sites)
    prior = refit_prior(None, scores, sites.active, may_rebuild=True)
    for iteration in range(2, MAX_ITERATIONS + 1):
        frozen = iteration > FREEZE_ACTIVE_AFTER
        sites = sites.updated(scores, prior, limit, full=question.full, frozen=frozen)
        if iteration in REFRESH_NOISE:
            noise = question.noise_of(sites.shrunken)
        fitted = _solve(question, noise, sites, fitted.missing)
        last, scores = scores, _leave_one_out(question, fitted, sites)
        prior = refit_prior(prior, scores, sites.active, may_rebuild=iteration in REBUILD_LADDER)
        converged = bool(np.abs(scores.z - last.z).max() < TOLERANCE)
        if converged and iteration >= MIN_ITERATIONS:
            break
    freedom = _freedom(fitted, sites)
    return CavityFit(
        scores, prior, fitted, sites.shrunken, freedom, iteration, converged, question.full
    )


def _solve(question: Question, noise: Floats, sites: Sites, missing: float) -> Balance:
    """One solve with the present sites, and tau settled from its last value."""
    random, members = question.random, question.positions[sites.active]
    mean, variance = sites.mean[sites.active], sites.variance[sites.active]
    fitted = scatter_sums(members, mean, random.num_bits) - random.mean * float(mean.sum())
    many = len(members) > question.centred.size // 2
    make, steps = (row_solver, 2) if many else (candidate_solver, 4)
    solver = make(noise, question.centred - fitted, members, variance, random)
    return balance(solver, missing, steps)


def _leave_one_out(question: Question, fitted: Balance, sites: Sites) -> Scores:
    """beta_i = m_i + z_i'u / d_i and se_i^2 = kappa (1 - s_i^2 d_i) / d_i.

    Where a candidate takes no part, d_i is its expectation over random positions.
    """
    information = np.full(len(sites.mean), fitted.solution.expected)
    information[sites.active] = fitted.solution.information
    sums = centred_sums(question.positions, fitted.solution.residual, question.random)
    left = 1 - sites.variance * information
    std_errors = np.sqrt(fitted.excess * left / information)
    return Scores(sites.mean + sums / information, std_errors)


def _freedom(fitted: Balance, sites: Sites) -> float:
    """n (k-1)/k - sum s_i^2 d_i: each cohort's rows are centred, and the sites use up some."""
    cohorts, num_bits = fitted.solution.residual.shape
    used = float((sites.variance[sites.active] * fitted.solution.information).sum())
    return float(max(cohorts * (num_bits - 1) - used, 1.0))
