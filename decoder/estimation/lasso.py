"""The LASSO estimator, which selects, refits, and tests each selected string in a fit without it.

Erlingsson, Pihur, Korolova 2014 (arXiv:1407.6981), section 4, select with the LASSO. Following the
path to its end selects noise; we stop at the penalty that a string rarely reaches if no one has it.
Wrong strings influence which other candidates are selected, so LASSO and refit are run again
without each selected candidate (docs/method.md, "The LASSO estimator")."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso

from decoder.errors import ConvergenceError
from decoder.estimation.ep_iterations import FitProblem
from decoder.estimation.ep_sites import Scores
from decoder.estimation.least_squares import (
    CandidateSolver,
    Refit,
    Solution,
    centered_columns,
    centered_sums,
    null_variance,
    refit,
)
from decoder.model.noise import RandomString
from decoder.model.null_distribution import NullTail, null_tail
from decoder.numerics.bit_tensor import Positions
from decoder.progress import Progress, silent
from decoder.typing import Floats, Indices

SHORT_LIST_FACTOR = 0.5  # penalty over Bonferroni quantile; measured in docs/evaluation/lists.md
LONG_LIST_FACTOR = 0.7  # the same, if there are more candidates than rows
_MIN_QUANTILE = 1.0  # normal quantile; a lower penalty has no effect, regardless of the level
_MAX_ENTERING = 512  # columns added between two checks of all columns; most are removed again
_MAX_ROUNDS = 200
_TOLERANCE = 1e-14  # the duality gap at which a fit ends, relative to the squares of the data
_SLACK = 1e-7  # the allowed violation by a column outside the fit, relative to the penalty
_MAX_SWEEPS = 100_000


@dataclass(frozen=True)
class LassoFit:
    """The minimizer of 1/2 sum w (y - Z b)^2 + penalty sum b over b >= 0."""

    selected: Indices  # Indices with b > 0, ascending
    shares: Floats  # Their b
    penalty: float
    largest_violation: float  # Of an optimality condition, relative to the penalty


def noise_penalty(
    weights: Floats,
    random: RandomString,
    num_candidates: int,
    alpha: float,
    *,
    strict: bool = False,
) -> float:
    """Return the LASSO penalty as a fraction of the Bonferroni quantile for absent strings' scores.

    Args:
        weights: The inverse variance of each row, (m, k).
        random: The distribution of a random string.
        num_candidates: The number of candidates.
        alpha: The error level that the quantile divides among the candidates.
        strict: Whether to use the full quantile if there are more candidates than rows, so that
            wrong strings are rarely selected.
    """
    sigma = float(np.sqrt(random.variance * weights.sum()))  # standard deviation of z_i' W noise
    quantile = max(-float(ndtri(alpha / num_candidates)), _MIN_QUANTILE)
    factor = SHORT_LIST_FACTOR
    if num_candidates > weights.size:
        factor = 1.0 if strict else LONG_LIST_FACTOR
    return factor * quantile * sigma


def fit_lasso(
    centered: Floats,
    positions: Positions,
    weights: Floats,
    random: RandomString,
    penalty: float,
    *,
    start: tuple[Indices, Floats] | None = None,
    left_out: int | None = None,
) -> LassoFit:
    """Minimize sum w (y - a - Z b)^2 / 2 + penalty sum b over b >= 0.

    Args:
        centered: y - a, (m, k).
        positions: The index tensor of the candidates, (M, m, h).
        weights: The weights of the rows, (m, k), > 0.
        random: The distribution of a random string, with the mean a of a column.
        penalty: The penalty, > 0.
        start: Indices and shares near the solution.
        left_out: A candidate to exclude.

    Raises:
        ConvergenceError: The LASSO does not converge.
    """
    root = np.sqrt(weights).reshape(-1, 1)
    target = root.ravel() * centered.ravel()
    columns, shares = start or (np.empty(0, dtype=np.intp), np.empty(0))
    matrix = root * centered_columns(positions[columns], random)
    for looks in range(_MAX_ROUNDS):
        residual = (root.ravel() * (target - matrix @ shares)).reshape(centered.shape)
        scores = centered_sums(positions, residual, random)
        if left_out is not None:
            scores[left_out] = -np.inf
        violation = float(scores.max(initial=penalty) / penalty - 1)
        scores[columns] = -np.inf
        entering = np.flatnonzero(scores > penalty * (1 + _SLACK))
        entering = entering[np.argsort(-scores[entering], kind="stable")][:_MAX_ENTERING]
        if not len(entering) and (looks or not len(columns)):
            order = np.argsort(columns)
            order = order[shares[order] > 0]
            return LassoFit(columns[order], shares[order], penalty, violation)
        positive = shares > 0
        columns = np.append(columns[positive], entering)
        new = root * centered_columns(positions[entering], random)
        matrix = np.column_stack([matrix[:, positive], new])
        shares = np.append(shares[positive], np.zeros(len(entering)))
        shares = _minimize(matrix, target, penalty, shares)
    raise ConvergenceError(
        f"the LASSO still had columns to add after {_MAX_ROUNDS} rounds; use a larger penalty"
    )


def _minimize(matrix: Floats, target: Floats, penalty: float, start: Floats) -> Floats:
    """Fit a few columns (n, A) with scikit-learn, starting at the shares `start` (A,)."""
    model = Lasso(
        alpha=penalty / len(target),
        fit_intercept=False,
        precompute=len(target) > len(start),
        max_iter=_MAX_SWEEPS,
        tol=_TOLERANCE,
        warm_start=True,
        positive=True,
    )
    model.coef_ = start
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            return np.asarray(model.fit(matrix, target).coef_)
        except ConvergenceWarning as error:
            raise ConvergenceError(
                f"the LASSO of {len(start)} columns did not converge in {_MAX_SWEEPS:,} sweeps; "
                "use a larger penalty"
            ) from error


STAGE = "rounds of the LASSO"
LEFT_OUT_STAGE = "selections without a candidate"
_SELECTIONS = 10  # maximum rounds of the LASSO, while its penalty falls
_MISSING_TOLERANCE = 0.05  # smaller changes of tau, relative to a row's variance, do not matter
_DEPENDENT = 1e-8  # a column with a smaller remainder (in sum of squares) depends on the others
_MAX_P = 0.15  # the maximum p-value of a candidate that is worth a fit without it
_MARGIN = 10.0  # a factor on the p-value at which a rule accepts all selected candidates
_SHARE_STEPS = 3
_SHARE_TOLERANCE = 0.1  # a smaller step, in standard errors, ends the search for a share
_PROBED = 2.0  # the shift of a share, in standard errors, to measure the response of its score
_MAX_WIDENED = 8.0  # the maximum factor on an error if others take over nearly all of a share
_PROBES = 16  # the maximum number of unselected candidates probed for their response
_MIN_RESPONSE = 0.25  # the lowest measured response is .62


class Selected(NamedTuple):
    """The selection of the LASSO and its refit."""

    fit: LassoFit
    members: Indices  # The refitted part of the selection, ascending, (A,)
    columns: Floats  # Their centered columns, (n, A)
    fitted: Refit
    noise: Floats  # The noise covariance of the refit, (m, k, k)


def select(problem: FitProblem, alpha: float, progress: Progress = silent) -> Selected:
    """Select by the LASSO and refit, until the penalty fits the unexplained noise.

    At first, all data count as noise; each detected value then reduces the noise."""
    random, shares = problem.random, np.zeros(len(problem.positions))
    noise, nothing = problem.noise_of(shares), np.empty((problem.centered.size, 0))
    missing = refit(noise, problem.centered, nothing, random).balance.missing
    for done in range(1, _SELECTIONS + 1):
        weights = _weights(problem, noise, missing)
        penalty = noise_penalty(weights, random, len(shares), alpha)
        chosen = fit_lasso(problem.centered, problem.positions, weights, random, penalty)
        shares[:] = 0.0
        shares[chosen.selected] = chosen.shares
        members, columns = _refittable(problem, chosen)
        refit_noise = problem.noise_of(shares)
        fitted = refit(refit_noise, problem.centered, columns, random)
        last, missing = missing, min(missing, fitted.balance.missing)
        if last - missing <= _MISSING_TOLERANCE * float(1 / weights.max()) / random.variance:
            break
        progress(STAGE, done, _SELECTIONS)
    progress(STAGE, done, done)
    return Selected(chosen, members, columns, fitted, refit_noise)


def left_out(
    problem: FitProblem,
    selected: Selected,
    first: tuple[Scores, Floats, NullTail],
    alpha: float,
    progress: Progress = silent,
    weights: Floats | None = None,
) -> tuple[Scores, Floats]:
    """Test each selected candidate against a selection without it, and estimate its share.

    Returns shares with errors, and scores, (M,) each. A score is converted to the scale of the null
    tail in `first`, at equal tail probability. The shares and errors of unselected candidates are
    divided by `_response`.

    Args:
        problem: The data of the fit.
        selected: The selection from all candidates, with its refit.
        first: Shares, scores and null tail from the refit with all candidates, (M,) each.
        alpha: The error level, which sets the penalty.
        progress: A callback for progress.
        weights: The divisors (M,) of the p-values in the decision rule.
    """
    (estimates, errors), z, tail = first
    estimates, errors, z = estimates.copy(), errors.copy(), z.copy()
    chosen = selected.fit.selected
    w = np.ones(len(z)) if weights is None else weights
    largest_p = np.minimum(_MAX_P, _MARGIN * alpha * max(len(chosen), 1) / len(z) * w)
    leasts = -ndtri(largest_p)
    worth = chosen[tail.deviate(z[chosen]) > leasts[chosen]]
    for done, i in enumerate(worth.tolist(), start=1):
        without = _Without(problem, selected, i, float(estimates[i]), alpha)
        score, residual = without.score(0.0)
        deviate = null_tail(residual, problem.random).deviate(np.array([score]))
        z[i] = tail.score(deviate)[0]
        if deviate[0] > leasts[i]:
            try:
                estimates[i], errors[i] = without.share(float(estimates[i]), float(errors[i]))
            except ConvergenceError:  # with too little data, the selection keeps changing
                errors[i] *= _MAX_WIDENED
        progress(LEFT_OUT_STAGE, done, len(worth))
    others = np.setdiff1d(np.arange(len(z)), chosen)
    response = _response(problem, selected, others, errors, alpha)
    estimates[others], errors[others] = estimates[others] / response, errors[others] / response
    return Scores(estimates, errors), z


def _response(
    problem: FitProblem, selected: Selected, others: Indices, errors: Floats, alpha: float
) -> float:
    """Return the mean factor by which an unselected candidate's estimate rises with its share.

    With a larger share in the data, the LASSO selects similar candidates, which absorb the
    remainder. If few candidates are selected, few probes are enough. The factor is 1 if no probe
    measures it."""
    if not (len(selected.members) and len(others)):
        return 1.0
    number = min(_PROBES, len(selected.members), len(others))
    probes = others[np.linspace(0, len(others) - 1, number).astype(np.intp)]
    parts = []
    for i in probes.tolist():
        move = _PROBED * float(errors[i])
        without = _Without(problem, selected, i, 0.0, alpha)
        try:
            before, after = without.solve(0.0), without.solve(-move)
        except ConvergenceError:
            continue
        risen = float(without.column.ravel() @ (after.residual - before.residual).ravel())
        information = float((without.column * before.weigh(without.column)).sum())
        if information > _DEPENDENT * float((without.column**2).sum()):
            parts.append(risen / (move * information))
    return float(np.clip(np.mean(parts), _MIN_RESPONSE, 1.0)) if parts else 1.0


@dataclass(frozen=True)
class _Without:
    """Selections and refits without one candidate, on the data minus a share of that candidate."""

    problem: FitProblem
    selected: Selected
    candidate: int
    expected: float  # Its estimated share; what is not removed of it counts as unlisted
    alpha: float

    @cached_property
    def column(self) -> Floats:
        return centered_columns(self.problem.positions[[self.candidate]], self.problem.random)

    def solve(self, share: float) -> Solution:
        """Select and refit without the candidate on y - a - b z_i, where b is `share`."""
        problem, fit, noise = self.problem, self.selected.fit, self.selected.noise
        random = problem.random
        missing = self.selected.fitted.balance.missing + max(self.expected - share, 0.0) ** 2
        weights, size = _weights(problem, noise, missing), len(problem.positions)
        penalty = noise_penalty(weights, random, size, self.alpha, strict=True)
        target = problem.centered - share * self.column.reshape(problem.centered.shape)
        others = fit.selected != self.candidate
        start = fit.selected[others], fit.shares[others]
        chosen = fit_lasso(target, problem.positions, weights, random, penalty,
                           start=start, left_out=self.candidate)  # fmt: skip
        return CandidateSolver(noise, target, _refittable(problem, chosen)[1], None, random)(
            missing
        )

    def score(self, share: float) -> tuple[float, Floats]:
        """Return the score of z_i, in null deviations, after removing `share`; and the residual."""
        residual = self.solve(share).residual
        score = float(self.column.ravel() @ residual.ravel())
        return score / float(np.sqrt(null_variance(residual, self.problem.random))), residual

    def share(self, start: float, error: float) -> tuple[float, float]:
        """Return the share b at which z_i's score on the data minus b z_i is zero, and its error.

        `start` and `error` are returned if the other candidates explain z_i completely."""
        share, shape = start, self.problem.centered.shape
        for _ in range(_SHARE_STEPS):
            solution = self.solve(share)
            direction = solution.weigh(self.column)
            information = float((self.column * direction).sum())
            if information <= _DEPENDENT * float((self.column**2).sum()):
                return start, error
            step = float(self.column.ravel() @ solution.residual.ravel()) / information
            share += step
            rest = solution.residual - step * direction.reshape(shape)
            variance = float(null_variance(rest, self.problem.random))
            error = float(np.sqrt(max(variance / information, 1.0) / information))
            if abs(step) < _SHARE_TOLERANCE * error:
                break
        # The LASSO may select other candidates that absorb a shifted share. Then the data are less
        # informative than the error of a fixed selection implies.
        move = _PROBED * error
        fall = self.score(share - move)[0] - self.score(share + move)[0]
        return share, error * max(2 * _PROBED / max(fall, 2 * _PROBED / _MAX_WIDENED), 1.0)


def _weights(problem: FitProblem, noise: Floats, missing: float) -> Floats:
    return np.asarray(1 / (np.einsum("jbb->jb", noise) + missing * problem.random.variance))


def _refittable(problem: FitProblem, chosen: LassoFit) -> tuple[Indices, Floats]:
    """Return the part of a selection that least squares can distinguish, and its columns.

    It has at most half of the rows' freedom, and no column that depends on those of larger shares.
    """
    columns = centered_columns(problem.positions[chosen.selected], problem.random)
    most = problem.freedom // 2
    gram = columns.T @ columns
    independent = list(range(len(gram)))
    least = np.linalg.eigvalsh(gram).min(initial=np.inf) if len(gram) <= most else 0.0
    if least <= _DEPENDENT * len(gram):
        independent, basis = [], np.empty((len(columns), 0))
        for i in np.argsort(-chosen.shares, kind="stable").tolist():
            rest = columns[:, i]
            for _ in range(2):  # twice is enough for orthogonality
                rest = rest - basis @ (basis.T @ rest)
            if len(independent) < most and rest @ rest > _DEPENDENT * gram[i, i]:
                basis = np.column_stack([basis, rest / np.linalg.norm(rest)])
                independent.append(i)
    independent.sort()
    return chosen.selected[independent], columns[:, independent]
