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
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from decoder.bit_tensor import Positions, scatter_sums
from decoder.errors import ImproperError
from decoder.gls import (
    Balance,
    RowSolver,
    Solver,
    balance,
    candidate_solver,
    centred_columns,
    centred_sums,
    left_out_scores,
    null_variance,
    row_solver,
)
from decoder.mixture import SharePrior
from decoder.noise import RandomString
from decoder.progress import Progress, silent
from decoder.sites import CUT_OFF, LEAST_PRECISION, Scores, Sites, refit_prior

Floats = NDArray[np.float64]

MAX_ITERATIONS = 60
MIN_ITERATIONS = 9
TOLERANCE = 0.03  # of a z-score
LEAST_LEFT = 1e-9  # of a share's freedom: below it 1 - s^2 d is rounding
REFRESH_NOISE = frozenset({3, 6})
REBUILD_LADDER = frozenset({2, 3, 4, 5, 6})
FREEZE_ACTIVE_AFTER = 14
FULL_FIT_PER_ROW = 4  # candidates a row up to which all take part in the fit
FULL_FIT_ROWS = 1536  # rows up to which a fit in the space of the rows is quick
WORTH_LEAVING_OUT = 1.0  # a z-score below which a site hardly shapes the residual
FEW_ROWS = 128  # up to which the others are fitted again without each such candidate
FEW_CANDIDATES = 256  # up to which that takes seconds
REFIT_TOLERANCE = 0.1  # of a z-score
STAGE, REFIT_STAGE = "rounds of the fit", "fits without a candidate"


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
    def freedom(self) -> int:
        """m (k - 1): the rows of a cohort are centred."""
        return int(self.centred.size - len(self.centred))

    @property
    def few_rows(self) -> bool:
        """Whether fits without each candidate in turn are affordable."""
        few = self.centred.size <= FEW_ROWS and 1 < len(self.positions) <= FEW_CANDIDATES
        return self.full and few

    @property
    def full(self) -> bool:
        """Whether all candidates take part in the fit, or only the probable ones."""
        candidates, rows = len(self.positions), self.centred.size
        affordable = candidates <= FULL_FIT_PER_ROW * rows and rows <= FULL_FIT_ROWS
        return self.may_be_full and (candidates <= rows or affordable)


@dataclass(frozen=True)
class CavityFit:
    """What the fit says of M candidates.

    scores: unbiased shares and their standard errors, (M,).  z: of the test that nobody holds the
    candidate, standardised, (M,).  prior: of shares, as fitted.
    balance: residual u = V^-1 (y - Z m), tau (squared shares of unlisted strings), kappa >= 1.
    taking_part: posterior means of those in the fit, 0 for the others, (M,).
    freedom: degrees of freedom left in the residual, >= 1.
    iterations: how many were run; converged: the z-scores had settled.
    full: all candidates took part in the fit.
    """

    scores: Scores
    z: Floats
    prior: SharePrior
    balance: Balance
    taking_part: Floats
    freedom: float
    iterations: int
    converged: bool
    full: bool


@dataclass(frozen=True)
class _Round:
    """One round of the fit: sites, the solve with them, and the scores and prior that follow."""

    sites: Sites
    noise: Floats
    fitted: Balance
    scores: Scores
    prior: SharePrior


def fit_cavity(question: Question, progress: Progress = silent) -> CavityFit:
    """Score all candidates. Deterministic: no random numbers, fixed orders of summation."""
    now, iteration, converged = _settle(question, progress)
    freedom = _freedom(question, now)
    scores, z = now.scores, _left_out(question, now)
    if question.few_rows:
        scores, z = _refitted(question, now, z, progress)
    taking_part, full = now.sites.shrunken, question.full
    return CavityFit(
        scores, z, now.prior, now.fitted, taking_part, freedom, iteration, converged, full
    )


def _settle(
    question: Question, progress: Progress = silent, tolerance: float = TOLERANCE
) -> tuple[_Round, int, bool]:
    """The last round, its number, and whether no z-score moved by `tolerance` any more."""
    now = _first(question)
    for iteration in range(2, MAX_ITERATIONS + 1):
        progress(STAGE, iteration - 1, MAX_ITERATIONS)
        last, now = now, _next(question, now, iteration)
        converged = bool(np.abs(now.scores.z - last.scores.z).max(initial=0.0) < tolerance)
        if converged and iteration >= MIN_ITERATIONS:
            break
    progress(STAGE, iteration, iteration)
    return now, iteration, converged


def _first(question: Question) -> _Round:
    """Nobody takes part."""
    sites = Sites.none(len(question.positions))
    noise = question.noise_of(sites.shrunken)
    fitted = _solve(question, noise, sites, 0.0)
    scores = _leave_one_out(question, fitted, sites)
    prior = refit_prior(None, scores, sites.active, may_rebuild=True)
    return _Round(sites, noise, fitted, scores, prior)


def _next(question: Question, now: _Round, iteration: int) -> _Round:
    """New sites from the scores and the prior, and what follows from them.

    Sites of negative precision that leave no proper posterior are cut off to positive ones.
    """
    limit, frozen = question.centred.size // 2, iteration > FREEZE_ACTIVE_AFTER
    noise = now.noise
    for least in (LEAST_PRECISION, CUT_OFF):
        sites = now.sites.updated(
            now.scores, now.prior, limit, full=question.full, frozen=frozen, least=least
        )
        if iteration in REFRESH_NOISE:
            noise = question.noise_of(sites.shrunken)
        try:
            fitted = _solve(question, noise, sites, now.fitted.missing)
            scores = _leave_one_out(question, fitted, sites)
            break
        except ImproperError:
            if least == CUT_OFF:
                raise
    rebuild = iteration in REBUILD_LADDER
    prior = refit_prior(now.prior, scores, sites.active, may_rebuild=rebuild)
    return _Round(sites, noise, fitted, scores, prior)


def _solve(question: Question, noise: Floats, sites: Sites, missing: float) -> Balance:
    """One solve with the present sites, and tau settled from its last value."""
    solver = _solver(question, noise, sites)
    return balance(solver, question.random, missing, 2 if isinstance(solver, RowSolver) else 4)


def _solver(question: Question, noise: Floats, sites: Sites) -> Solver:
    """In the space of the rows, or of the candidates that take part where they are few."""
    random, members = question.random, question.positions[sites.active]
    mean, variance = sites.mean[sites.active], sites.variance[sites.active]
    fitted = scatter_sums(members, mean, random.num_bits) - random.mean * float(mean.sum())
    make = row_solver if len(members) > question.centred.size // 2 else candidate_solver
    return make(noise, question.centred - fitted, members, variance, random)


def _leave_one_out(question: Question, fitted: Balance, sites: Sites) -> Scores:
    """beta_i = m_i + z_i'u / d_i and se_i^2 = kappa (1 - s_i^2 d_i) / d_i.

    Where a candidate takes no part, d_i is its expectation over random positions. Raises
    ImproperError where negative sites leave a cavity without a positive variance.
    """
    information = np.full(len(sites.mean), fitted.solution.expected)
    information[sites.active] = fitted.solution.information
    sums = centred_sums(question.positions, fitted.solution.residual, question.random)
    squares = fitted.excess * _left(sites.variance, information) / information
    if (squares <= 0).any():
        raise ImproperError("the sites of the others leave no proper belief in a candidate")
    return Scores(sites.mean + sums / information, np.sqrt(squares))


def _left(variance: Floats, information: Floats) -> Floats:
    """1 - s_i^2 d_i, (B,), above 0 by more than rounding where s_i^2 is."""
    left = 1 - variance * information
    return np.where(variance < 0, left, np.maximum(left, LEAST_LEFT))


def _left_out(question: Question, now: _Round) -> Floats:
    """Scores for the test that nobody holds a candidate, each with its exact null variance, (M,).

    A site takes its candidate's own score out of the residual, from which the variance of
    unlisted strings and of every score is read: left in, it would sharpen its own evidence.
    """
    solution, sites = now.fitted.solution, now.sites
    z, active = now.scores.z.copy(), np.flatnonzero(sites.active)
    worth = z[active] > WORTH_LEAVING_OUT
    members = active[worth]
    columns = centred_columns(question.positions[members], question.random)
    variance = sites.variance[members]
    shares = sites.mean[members] + variance * (columns.T @ solution.residual.ravel())
    directions = solution.weigh(columns) / _left(variance, solution.information[worth])
    scores = left_out_scores(solution.residual, columns, directions, shares, question.random)
    z[members] = scores * now.fitted.slack
    return z


def _refitted(
    question: Question, now: _Round, z: Floats, progress: Progress
) -> tuple[Scores, Floats]:
    """Scores, and those of the test, against fits of the others without the candidate, (M,).

    Where rows are few and much of them is fitted, the others' sites depend on each candidate. Then
    (1) holds to the letter: sites, prior and noise come from a fit that never saw it, begun anew,
    since from the present sites it would stay near an explanation that the candidate took part
    in. For its share, tau is that of the fit of all.
    """
    estimates, errors, z = now.scores.estimates.copy(), now.scores.std_errors.copy(), z.copy()
    worth = np.flatnonzero(z > WORTH_LEAVING_OUT)
    for done, i in enumerate(worth, start=1):
        column = centred_columns(question.positions[[i]], question.random)
        rest = _without(question, i)
        others = _settle(rest, tolerance=REFIT_TOLERANCE)[0]
        residual = others.fitted.solution.residual
        deviation = np.sqrt(null_variance(residual, question.random))
        z[i] = (column.ravel() @ residual.ravel()) / deviation * others.fitted.slack
        missing = min(now.fitted.missing, others.fitted.missing)
        known = _solver(rest, others.noise, others.sites)(missing)
        information = float((column * known.weigh(column)).sum())
        if information > 0:  # a proper belief without the candidate
            estimates[i] = (column.ravel() @ known.residual.ravel()) / information
            errors[i] = np.sqrt(now.fitted.excess / information)
        progress(REFIT_STAGE, done, len(worth))
    return Scores(estimates, errors), z


def _without(question: Question, left_out: np.intp) -> Question:
    """The same question about all but one candidate."""
    others = np.arange(len(question.positions)) != left_out

    def noise_of(shares: Floats) -> Floats:
        return question.noise_of(np.insert(shares, left_out, 0.0))

    return replace(question, positions=question.positions[others], noise_of=noise_of)


def _freedom(question: Question, now: _Round) -> float:
    """m (k - 1) - sum s_i^2 d_i: what the sites leave over."""
    variance = now.sites.variance[now.sites.active]
    used = float((variance * now.fitted.solution.information).sum())
    return max(question.freedom - used, 1.0)
