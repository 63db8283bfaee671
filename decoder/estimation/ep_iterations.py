"""Expectation propagation (EP, Minka 2001), the fit of the `cavity` estimator."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from decoder.errors import ImproperError
from decoder.estimation.ep_sites import (
    CUT_OFF,
    DAMPING,
    MIN_PRECISION,
    Scores,
    Sites,
    all_may_take_part,
    most_active,
    refit_prior,
    work_of_all,
)
from decoder.estimation.least_squares import (
    Balance,
    balance,
    candidate_solver,
    centered_sums,
    solver_in_rows,
    unexplained,
)
from decoder.model.noise import RandomString
from decoder.model.share_prior import SharePrior
from decoder.numerics.bit_tensor import Positions, scatter_sums
from decoder.progress import Progress, silent
from decoder.typing import Floats, Indices

MAX_ITERATIONS = 60
MIN_ITERATIONS = 9
TOLERANCE = 0.03  # the maximum change of a z-score at convergence
MIN_LEFT = 1e-9  # the minimum of 1 - s^2 d; a smaller value is rounding
REFRESH_NOISE = frozenset({3, 6})  # rounds that recompute the noise
REBUILD_LADDER = frozenset({2, 3, 4, 5, 6})  # rounds that may rebuild the prior's components
MAX_LAGGING = 5  # consecutive rounds that reuse the covariance of an earlier round
LAST_LAGGING = 10  # the last round that may reuse a covariance; later, heavy sites would oscillate
MAX_UNLIKE = 2.0  # the maximum ratio of noise between windows for a warm start
WARM_START_STEPS = 200  # EM steps of a warm start: the scores are almost final
MAX_SURE = 10.0  # the maximum precision of a site at a warm start, relative to its cavity
NEAR = 4  # the round number with which a warm start begins
FREEZE_ACTIVE_AFTER = 14  # later rounds keep the set of active candidates
WORK_OF_BIT = 20.0  # the work of a gathered sum, in multiplications of a matrix product
WORK_OF_CANDIDATE = 5e3  # the work of a candidate in the prior
FEW_ROWS = 128  # with at most so many rows, each likely candidate is tested in a separate fit
FEW_CANDIDATES = 256  # with at most so many candidates, the separate fits take seconds
STAGE = "rounds of the fit"


@dataclass(frozen=True)
class FitProblem:
    """The data and options for a fit by expectation propagation."""

    centered: Floats  # y - a, (m, k)
    positions: Positions  # Bits of the candidates, (M, m, h)
    random: RandomString
    noise_of: Callable[[Floats], Floats]  # Shares (M,) -> covariance of each cohort (m, k, k)
    may_be_full: bool = True  # Whether all candidates may take part
    damping: float = DAMPING  # The fraction of a step that is taken
    others: Indices | None = None  # The included candidates (L,), if some are excluded

    @property
    def number(self) -> int:
        """The number of candidates in the fit (L or M)."""
        return len(self.positions if self.others is None else self.others)

    @property
    def freedom(self) -> int:
        """The degrees of freedom of the rows, m (k - 1): each cohort's rows are centered."""
        return int(self.centered.size - len(self.centered))

    @property
    def few_rows(self) -> bool:
        """Whether a separate fit without each candidate is affordable."""
        few = self.centered.size <= FEW_ROWS and 1 < self.number <= FEW_CANDIDATES
        return self.full and few

    @property
    def full(self) -> bool:
        """Whether all candidates take part in the fit, not only probable candidates."""
        shape = self.centered.shape[0], self.centered.shape[1]
        return self.may_be_full and all_may_take_part(self.number, shape, self.positions.shape[2])

    def work(self, active: int) -> float:
        """Estimate the multiplications per iteration with `active` candidates, or all if `full`."""
        size = (self.centered.shape[0], self.centered.shape[1]), self.positions.shape[2]
        if self.full:
            return work_of_all(self.number, *size)
        active = min(active, most_active(self.centered.size))
        each = WORK_OF_BIT * float(self.positions[:1].size) + WORK_OF_CANDIDATE
        return self.number * each + work_of_all(active, *size)

    def members(self, sites: Sites) -> Positions:
        """Return the index tensor (A, m, h) of the candidates that take part."""
        active = sites.active if self.others is None else self.others[sites.active]
        return self.positions[active]

    def sums(self, residual: Floats) -> Floats:
        """Return z_i' u for every candidate of the fit, (L,), given the residual u (m, k)."""
        sums = centered_sums(self.positions, residual, self.random)
        return sums if self.others is None else sums[self.others]


@dataclass(frozen=True)
class EpIteration:
    """The sites, their solution, and the new scores and prior."""

    sites: Sites
    noise: Floats  # The covariance of each cohort, (m, k, k)
    fitted: Balance
    cavity: Floats  # Variance (M,) of each leave-one-out estimate; not yet times kappa
    scores: Scores
    prior: SharePrior


class EpResult(NamedTuple):
    """The last iteration, the number of iterations, and whether the z-scores converged."""

    last: EpIteration
    iterations: int
    converged: bool


def run_ep(
    problem: FitProblem,
    progress: Progress = silent,
    tolerance: float = TOLERANCE,
    near: EpIteration | None = None,
    most: int = MAX_ITERATIONS,
) -> EpResult:
    """Iterate up to `most` times, until no z-score changes by `tolerance` or more.

    From a warm start `near`, most iterations reuse an earlier covariance, the costly part."""
    start, now = (NEAR, near) if near else (2, None)
    if now is None:  # start with a fit without any candidates
        nothing = np.zeros(problem.number)
        sites = Sites(nothing, nothing, nothing > 0, nothing)
        noise = problem.noise_of(sites.shrunken)
        fitted = _solve(problem, noise, sites, 0.0)
        cavity = _cavity(fitted, sites)
        scores = _leave_one_out(problem, fitted, sites, cavity)
        prior = refit_prior(None, scores, sites.active)
        now = EpIteration(sites, noise, fitted, cavity, scores, prior)
    refresh_noise = frozenset({MIN_ITERATIONS}) if near else REFRESH_NOISE
    lagging, converged = 0, False
    for iteration in range(start, most + 1):
        progress(STAGE, iteration - 1, most)
        last, refresh = now, iteration in refresh_noise
        lag = bool(near) and iteration <= LAST_LAGGING and not refresh and lagging < MAX_LAGGING
        now = _next(problem, now, iteration, refresh_noise=refresh, lag=lag)
        steady = bool(np.abs(now.scores.z - last.scores.z).max(initial=0.0) < tolerance)
        converged = steady and not lag and iteration >= MIN_ITERATIONS
        if converged:
            break
        enough = steady and iteration + 1 >= MIN_ITERATIONS
        lagging = (MAX_LAGGING if enough else lagging + 1) if lag else 0
    progress(STAGE, iteration, iteration)
    return EpResult(now, iteration - start + 2, converged)


def warm_start(problem: FitProblem, end: EpIteration) -> EpIteration | None:
    """Start from the final fit of a similar window; return None if the windows differ too much.

    A site that is certain of a share of 0 would delay convergence, so its variance is increased."""
    noise = problem.noise_of(end.sites.shrunken)
    louder = np.trace(noise, axis1=1, axis2=2) / np.trace(end.noise, axis1=1, axis2=2)
    fitted = _weighed(problem, end.sites, end.fitted)
    factors = np.array([np.median(louder), fitted.ratio / end.fitted.ratio])
    if (np.maximum(factors, 1 / factors) > MAX_UNLIKE).any():
        return None
    scores = _leave_one_out(problem, fitted, end.sites, end.cavity)
    prior = refit_prior(None, scores, end.sites.active, steps=WARM_START_STEPS)
    variance, least = end.sites.variance, scores.std_errors**2 / MAX_SURE
    loosened = np.where(variance < 0, variance, np.maximum(variance, least))
    sites = replace(end.sites, variance=loosened)
    return EpIteration(sites, noise, fitted, end.cavity, scores, prior)


def _next(
    problem: FitProblem, now: EpIteration, iteration: int, *, refresh_noise: bool, lag: bool
) -> EpIteration:
    """Compute the next iteration; `lag` reuses the covariance of an earlier iteration."""
    limit, frozen = most_active(problem.centered.size), iteration > FREEZE_ACTIVE_AFTER
    noise = now.noise
    for least in (MIN_PRECISION, CUT_OFF):  # positive sites only if the posterior is improper
        sites = now.sites.updated(
            now.scores, now.prior, limit, full=problem.full, frozen=frozen, least=least,
            damping=problem.damping
        )  # fmt: skip
        if lag:  # a score excludes its own site for any symmetric weight matrix of the residual
            fitted, cavity = _weighed(problem, sites, now.fitted), now.cavity
            break
        if refresh_noise:
            noise = problem.noise_of(sites.shrunken)
        try:
            fitted = _solve(problem, noise, sites, now.fitted.missing)
            cavity = _cavity(fitted, sites)
            break
        except ImproperError:
            if least == CUT_OFF:
                raise
    scores = _leave_one_out(problem, fitted, sites, cavity)
    rebuild = iteration in REBUILD_LADDER
    prior = refit_prior(now.prior, scores, sites.active, may_rebuild=rebuild)
    return EpIteration(sites, noise, fitted, cavity, scores, prior)


def _weighed(problem: FitProblem, sites: Sites, fitted: Balance) -> Balance:
    target, solution = _target(problem, sites), fitted.solution
    residual = solution.weigh(target.reshape(-1, 1)).reshape(target.shape)
    return unexplained(solution._replace(residual=residual), fitted.missing, problem.random)


def _solve(problem: FitProblem, noise: Floats, sites: Sites, missing: float) -> Balance:
    members, variance = problem.members(sites), sites.variance[sites.active]
    in_rows = len(members) > problem.centered.size // 2
    make, steps = (solver_in_rows, 2) if in_rows else (candidate_solver, 4)
    solve = make(noise, _target(problem, sites), members, variance, problem.random)
    return balance(solve, problem.random, missing, steps)


def _target(problem: FitProblem, sites: Sites) -> Floats:
    random, mean = problem.random, sites.mean[sites.active]
    listed = scatter_sums(problem.members(sites), mean, random.num_bits)
    return np.asarray(problem.centered - (listed - random.mean * float(mean.sum())))


def _information(fitted: Balance, sites: Sites) -> Floats:
    """Return the information d_i (M,) of candidates; outside the fit, that of random strings."""
    information = np.full(len(sites.mean), fitted.solution.expected)
    information[sites.active] = fitted.solution.information
    return information


def _cavity(fitted: Balance, sites: Sites) -> Floats:
    """Return (1 - s_i^2 d_i) / d_i (M,), leave-one-out variances without the factor kappa."""
    information = _information(fitted, sites)
    cavity = free_part(sites.variance, information) / information
    if (cavity <= 0).any():
        raise ImproperError("the sites of the others leave no proper belief in a candidate")
    return np.asarray(cavity)


def _leave_one_out(problem: FitProblem, fitted: Balance, sites: Sites, cavity: Floats) -> Scores:
    """Return the estimates m_i + z_i'u / d_i, with errors (kappa times the cavity variance)^.5."""
    sums = problem.sums(fitted.solution.residual)
    information = _information(fitted, sites)
    return Scores(sites.mean + sums / information, np.sqrt(fitted.excess * cavity))


def free_part(variance: Floats, information: Floats) -> Floats:
    """Return the factor 1 - s_i^2 d_i for each candidate (B,), clipped to positive values."""
    part = 1 - variance * information
    return np.where(variance < 0, part, np.maximum(part, MIN_LEFT))
