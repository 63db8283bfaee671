"""The cavity estimator, which scores each candidate against a fit of all the others.

If no one has a string, its positions are independent of the data and of every other candidate. So
for any vector u that is computed without it, its score z_i' u has mean 0 and variance sum_j u_j' C
u_j. So we may use a strong fit for the others (sparse, positive, with a learned prior) and still
know the null distribution of each score, even if values are missing from the list. The fit is
expectation propagation (Minka 2001); the leave-one-out ("cavity") quantities are its by-product.
Derivation: docs/method.md."""

from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from decoder.errors import ImproperError
from decoder.estimation.ep_iterations import (
    EpIteration,
    EpResult,
    FitProblem,
    free_part,
    run_ep,
    warm_start,
)
from decoder.estimation.ep_sites import Scores, most_active
from decoder.estimation.least_squares import centered_columns, left_out_scores, null_variance
from decoder.model.null_distribution import NORMAL_TAIL, NullTail, null_tail
from decoder.numerics.bit_tensor import Positions
from decoder.progress import Progress, silent
from decoder.typing import Floats, Indices

WORTH_LEAVING_OUT = 1.0  # below this z-score, a site hardly affects the residual
MORE_DAMPING = 0.3  # the damping if a fit with the usual steps does not converge
REFIT_ROUNDS = 20  # rounds of a fit without a candidate; its test is valid at any round
REFIT_WORK = 1e8  # the minimum multiplications of such a fit, even for short lists
MAX_REFIT_WORK = 3e10  # multiplications for all such fits, for a few seconds
MAY_BE_NAMED = 0.2  # level of the rule that selects the candidates to test in separate fits
FEW_COHORTS = 8  # up to this number, a score may consist of one heavy bit
EXPECTED = 10  # the expected number of wrong strings to test even if no rule would name them
REFIT_TOLERANCE = 0.1  # of a z-score
NEAR_TOLERANCE = 0.05  # of a z-score, for a fit from a warm start
MOSTLY_OVER = 0.6  # the fraction of the rows' freedom that a fit must leave to be a warm start
MAX_ROWS = 4096  # the maximum for warm starts, which take tens of megabytes each
QUIETER = 3.0  # a ratio this many standard errors below 1 is not due to chance
REFIT_STAGE = "fits without a candidate"


class CavityFit(NamedTuple):
    """The result of the cavity fit for M candidates."""

    scores: Scores  # Unbiased shares and errors
    z: Floats  # Scores for the hypothesis that no one has the candidate, (M,)
    tail: NullTail  # The null distribution of z
    law: NullTail  # The null distribution of scores against the residual
    last: EpIteration
    freedom: float  # The degrees of freedom that the fit leaves
    iterations: int
    converged: bool
    full: bool


@dataclass(frozen=True)
class WarmStarts:
    """The results of the last two cold fits, from which fits of similar windows may start.

    Two results are kept because weekends may differ from other days, and `pipeline` may fit a
    window twice. Fits that use up much of the rows' freedom are not kept, because then the
    posterior has several modes, and a cold fit finds better modes."""

    kept: deque[tuple[Positions, EpIteration]] = field(default_factory=lambda: deque(maxlen=2))

    def near(self, problem: FitProblem) -> EpIteration | None:
        """Return the warm start from the fit of a similar window; None if there is none."""
        if _worth_a_start(problem):
            for positions, end in self.kept:
                same = np.array_equal(positions, problem.positions)
                if same and (start := warm_start(problem, end)):
                    return start
        return None

    def keep(self, problem: FitProblem, result: EpResult) -> None:
        """Store a cold fit as a start for later windows."""
        over = _freedom(problem, result.last) / problem.freedom
        if result.converged and over > MOSTLY_OVER and _worth_a_start(problem):
            self.kept.append((problem.positions, result.last))


def _worth_a_start(problem: FitProblem) -> bool:
    return problem.full and not problem.few_rows and problem.centered.size <= MAX_ROWS


def fit_cavity(
    problem: FitProblem,
    progress: Progress = silent,
    warm_starts: WarmStarts | None = None,
    weights: Floats | None = None,
    *,
    repeated: bool = False,
) -> CavityFit:
    """Score all candidates deterministically, with fixed orders of summation.

    Args:
        problem: The data and options of the fit.
        progress: A callback for progress.
        warm_starts: One object for all windows of a series; None to start cold.
        weights: The divisors (M,) of the p-values in the decision rule; they select the candidates
            to test in separate fits.
        repeated: Whether devices may report more than once.
    """
    problem, (now, iterations, converged) = _until_converged(problem, progress, warm_starts)
    freedom = _freedom(problem, now)
    law = null_tail(now.fitted.solution.residual, problem.random)
    z, tail = _left_out(problem, now), law
    doubtful = _doubtful(problem, freedom / problem.freedom, tail.deviate(z), weights)
    if len(doubtful):
        z, tail = _refitted(problem, tail.deviate(z), doubtful, progress), NORMAL_TAIL
    errors, ratio = now.scores.std_errors, now.fitted.ratio
    if not problem.full:
        # more candidates qualified than could be fitted, and the best ones left less than the noise
        crammed = int(now.sites.active.sum()) >= most_active(problem.centered.size)
        errors = errors * problem.freedom / freedom if crammed else errors
    elif not repeated and ratio <= 1 - QUIETER * np.sqrt(2 / freedom):
        # the prior's components have a width, which overstates the spread of the shares; if
        # devices may repeat, `pipeline` decides
        errors = errors * np.sqrt(ratio)
    scores = now.scores._replace(std_errors=errors)
    return CavityFit(scores, z, tail, law, now, freedom, iterations, converged, problem.full)


def _until_converged(
    problem: FitProblem, progress: Progress, warm_starts: WarmStarts | None
) -> tuple[FitProblem, EpResult]:
    """Run EP until an attempt converges; return the problem that was solved and the result.

    Attempts: warm; cold, with all or only probable candidates; cold, with more damping."""
    near = warm_starts.near(problem) if warm_starts else None
    if near is not None:
        with suppress(ImproperError):
            result = run_ep(problem, progress, NEAR_TOLERANCE, near)
            if result.converged:
                return problem, result
    probable = replace(problem, may_be_full=False)
    slower = [replace(start, damping=MORE_DAMPING) for start in (probable, problem)]
    for attempt in [problem, probable, *slower] if problem.full else [problem, slower[0]]:
        result = run_ep(attempt, progress)
        if result.converged:
            break
    if warm_starts is not None and attempt is problem:
        warm_starts.keep(problem, result)
    return attempt, result


def _doubtful(
    problem: FitProblem, freedom: float, deviates: Floats, weights: Floats | None
) -> Indices:
    """Return the candidates (D,) to be tested in fits without them, weakest first.

    `freedom` is the fraction of the rows' freedom that the fit leaves."""
    if problem.few_rows:
        return np.flatnonzero(deviates > WORTH_LEAVING_OUT)
    alone = len(problem.positions) == 1  # no other candidate could respond to it
    many = len(problem.centered) > FEW_COHORTS
    if alone or (problem.full and freedom > MOSTLY_OVER and many):  # accurate to first order
        return np.zeros(0, dtype=np.intp)
    p = ndtr(-deviates) if weights is None else ndtr(-deviates) / weights
    ranked = np.sort(p)
    # Benjamini and Hochberg's rule; Storey's at .05 accepts no more if a quarter or more is wrong
    named = ranked[ranked <= MAY_BE_NAMED * np.arange(1, len(p) + 1) / len(p)]
    # In few cohorts, one bit of a heavy unlisted value is a large part of a score, and candidates
    # that share it respond to each other beyond first order: so also test up to ten wrong strings.
    limit = max(named.max(initial=0.0), 0.0 if many else EXPECTED / len(p))
    doubtful = np.flatnonzero((p <= limit) & (deviates > WORTH_LEAVING_OUT))
    strength = deviates if weights is None else -p
    return doubtful[np.argsort(strength[doubtful], kind="stable")]


def _left_out(problem: FitProblem, now: EpIteration) -> Floats:
    """Return the test scores (M,); those of active candidates have the exact null variance."""
    solution, sites = now.fitted.solution, now.sites
    z, active = now.scores.z.copy(), np.flatnonzero(sites.active)
    worth = np.abs(z[active]) > WORTH_LEAVING_OUT
    members = active[worth]
    columns = centered_columns(problem.positions[members], problem.random)
    variance = sites.variance[members]
    shares = sites.mean[members] + variance * (columns.T @ solution.residual.ravel())
    directions = solution.weigh(columns) / free_part(variance, solution.information[worth])
    scores = left_out_scores(solution.residual, columns, directions, shares, problem.random)
    z[members] = scores * now.fitted.slack
    return z


def _refitted(
    problem: FitProblem, deviates: Floats, doubtful: Indices, progress: Progress
) -> Floats:
    """Return the test deviates (M,); for doubtful candidates, they come from fits without them.

    Fits start cold, because from the current sites they would stay near an explanation that
    involves the candidate. If separate fits take too long, similarly strong candidates share one.
    """
    work = problem.work(len(doubtful))
    number = int(MAX_REFIT_WORK / (REFIT_ROUNDS * work + REFIT_WORK))
    number = max(number, 1 if len(doubtful) < len(problem.positions) else 2)
    if problem.few_rows or number > len(doubtful):
        number = len(doubtful)
    deviates, done = deviates.copy(), 0
    for group in np.array_split(doubtful, number):
        deviates[group] = _unseen(problem, group)
        done += len(group)
        progress(REFIT_STAGE, done, len(doubtful))
    return deviates


def _unseen(problem: FitProblem, group: Indices) -> Floats:
    """Return the test deviates of a group (B,) against a fit without it; 0 if there is no fit.

    For each candidate, the rest of its group is fitted to the residual with a prior N(0, 1)."""
    try:
        rest = run_ep(_without(problem, group), tolerance=REFIT_TOLERANCE, most=REFIT_ROUNDS)
    except ImproperError:
        return np.zeros(len(group))
    solution, slack = rest.last.fitted.solution, rest.last.fitted.slack
    columns = centered_columns(problem.positions[group], problem.random)
    weighed = solution.weigh(columns)
    gram, sums = columns.T @ weighed, columns.T @ solution.residual.ravel()
    inverse = np.linalg.pinv(gram + np.eye(len(group)))
    together, deviates = inverse @ sums, np.empty(len(group))
    for i in range(len(group)):
        shares = together - inverse[:, i] * (together[i] / inverse[i, i])  # the share of i is 0
        residual = solution.residual - (weighed @ shares).reshape(problem.centered.shape)
        z = slack * (sums[i] - gram[i] @ shares) / np.sqrt(null_variance(residual, problem.random))
        deviates[i] = null_tail(residual, problem.random).deviate(np.array([z]))[0]
    return deviates


def _without(problem: FitProblem, left_out: Indices) -> FitProblem:
    others = np.delete(np.arange(len(problem.positions)), left_out)

    def noise_of(shares: Floats) -> Floats:
        everyone = np.zeros(len(problem.positions))
        everyone[others] = shares
        return problem.noise_of(everyone)

    return replace(problem, others=others, noise_of=noise_of)


def _freedom(problem: FitProblem, now: EpIteration) -> float:
    variance = now.sites.variance[now.sites.active]
    used = float((variance * now.fitted.solution.information).sum())
    return max(problem.freedom - used, 1.0)
