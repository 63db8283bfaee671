"""The LASSO estimator: select and refit, then test the selected against fits without them.

What a selection keeps, it keeps because its score was high, and the values that it keeps beside a
wrong string were chosen together with that string. The score of a selected candidate against the
refit of the others is then no longer the score of a string that had no part in the fit. Here
the LASSO and the refit are run again without each selected candidate (docs/method.md, "The LASSO
estimator").
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from decoder.errors import ConvergenceError
from decoder.estimation.ep_iterations import FitProblem
from decoder.estimation.ep_sites import Scores
from decoder.estimation.lasso_path import LassoFit, fit_lasso, noise_penalty
from decoder.estimation.least_squares import (
    CandidateSolver,
    Solution,
    centerd_columns,
    null_variance,
)
from decoder.estimation.refit import Refit, refit
from decoder.model.null_distribution import NullTail, null_tail
from decoder.progress import Progress, silent
from decoder.typing import Floats, Indices

STAGE = "rounds of the LASSO"
LEFT_OUT_STAGE = "selections without a candidate"
_SELECTIONS = 10  # rounds of the LASSO, while its penalty falls
_MISSING_TOLERANCE = 0.05  # of a row's variance: a smaller change of the unlisted does not matter
_DEPENDENT = 1e-8  # of a column's squares: what is left of one that others make up
_MAX_P = 0.15  # of a candidate that is worth a fit without it
_MARGIN = 10.0  # over the p-value at which a rule accepts all that is selected
_SHARE_STEPS = 3
_SHARE_TOLERANCE = 0.1  # of a standard error
_PROBED = 2.0  # standard errors, by which a share is moved to see how far its score follows
_MAX_WIDENED = 8.0  # times an error, where others take over nearly all of a share
_PROBES = 16  # candidates, at most, that show how far the score of one that is not selected follows
_MIN_RESPONSE = 0.25  # .62 is the least that was measured


class Selected(NamedTuple):
    """The selection of the LASSO and its refit by least squares.

    fit: of the LASSO.  members: those of its selection that are refitted, ascending, (A,).
    columns: theirs, centerd, (n, A).  fitted: their refit.  noise: the covariance that the refit
    took, (m, k, k).
    """

    fit: LassoFit
    members: Indices
    columns: Floats
    fitted: Refit
    noise: Floats


def select(problem: FitProblem, alpha: float, progress: Progress = silent) -> Selected:
    """Select by the LASSO and refit, again until the penalty fits the unexplained noise.

    What the list lacks is noise to the selection, as the reports' own is. It is first taken as
    all that the bare data show, and falls with every value that is found; the penalty with it.
    """
    random, shares = problem.random, np.zeros(len(problem.positions))
    noise, nothing = problem.noise_of(shares), np.empty((problem.centerd.size, 0))
    missing = refit(noise, problem.centerd, nothing, random).balance.missing
    for done in range(1, _SELECTIONS + 1):
        weights = _weights(problem, noise, missing)
        penalty = noise_penalty(weights, random, len(shares), alpha)
        chosen = fit_lasso(problem.centerd, problem.positions, weights, random, penalty)
        shares[:] = 0.0
        shares[chosen.selected] = chosen.shares
        members, columns = _refittable(problem, chosen)
        refit_noise = problem.noise_of(shares)
        fitted = refit(refit_noise, problem.centerd, columns, random)
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
    """Test each selected candidate against a selection that never saw it, and read its share
    there, (M,) each.

    first: shares, scores and null tail against the refit of all, (M,) each; what they say of the
    candidates that were not selected stands: a selection without those is the same. A score is
    returned on the scale of that tail, at the same tail probability as in its own. The shares and
    errors of those that were not selected are divided by `_response`.
    weights: (M,), by which p-values will be divided.
    """
    (estimates, errors), z, tail = first
    estimates, errors, z = estimates.copy(), errors.copy(), z.copy()
    chosen = selected.fit.selected
    w = np.ones(len(z)) if weights is None else weights
    largest_p = np.minimum(_MAX_P, _MARGIN * alpha * max(len(chosen), 1) / len(z) * w)
    leasts = -ndtri(largest_p)
    worth = chosen[tail.deviate(z[chosen]) > leasts[chosen]]
    for done, i in enumerate(worth.tolist(), start=1):
        least = float(leasts[i])
        without = _Without(problem, selected, i, float(estimates[i]), alpha)
        deviate = without.deviate()
        z[i] = tail.score(np.array([deviate]))[0]
        if deviate > least:
            try:
                estimates[i], errors[i] = without.share(float(estimates[i]), float(errors[i]))
            except ConvergenceError:  # of so little data that selections hang on every move
                errors[i] *= _MAX_WIDENED
        progress(LEFT_OUT_STAGE, done, len(worth))
    others = np.setdiff1d(np.arange(len(z)), chosen)
    response = _response(problem, selected, others, errors, alpha)
    estimates[others], errors[others] = estimates[others] / response, errors[others] / response
    return Scores(estimates, errors), z


def _response(
    problem: FitProblem, selected: Selected, others: Indices, errors: Floats, alpha: float
) -> float:
    """By what part of a share, on average, the estimate of one that was not selected rises with it.

    The refit alone answers to the whole share. But with more of it in the data the LASSO selects
    others that are like it, the more the longer the list: they take over the rest. Of a few that
    are selected few can: then few probes are enough. 1 where no probe tells.
    """
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
    """Selections and refits of all candidates but one, `left`, of the data less a share of it.

    expected: its share; what is left of it in the data is that of one unlisted.
    """

    problem: FitProblem
    selected: Selected
    left: int
    expected: float
    alpha: float

    @cached_property
    def column(self) -> Floats:
        """z_i, (n, 1)."""
        return centerd_columns(self.problem.positions[[self.left]], self.problem.random)

    def solve(self, taken: float) -> Solution:
        """Select and refit in y - a - b z_i, of a share b that is `taken` out of the data."""
        problem, fit, noise = self.problem, self.selected.fit, self.selected.noise
        missing = self.selected.fitted.balance.missing + max(self.expected - taken, 0.0) ** 2
        weights, size = _weights(problem, noise, missing), len(problem.positions)
        penalty = noise_penalty(weights, problem.random, size, self.alpha, strict=True)
        target = problem.centerd - taken * self.column.reshape(problem.centerd.shape)
        data = target, problem.positions, weights, problem.random, penalty
        others = fit.selected != self.left
        start = fit.selected[others], fit.shares[others]
        chosen = fit_lasso(*data, start=start, left_out=self.left)
        columns = _refittable(problem, chosen)[1]
        return CandidateSolver(noise, target, columns, None, problem.random)(missing)

    def score(self, share: float) -> tuple[float, Floats]:
        """Of z_i, in its own null deviation, in the data less `share` of it; with the residual."""
        residual = self.solve(share).residual
        score = float(self.column.ravel() @ residual.ravel())
        return score / float(np.sqrt(null_variance(residual, self.problem.random))), residual

    def deviate(self) -> float:
        """Normal deviate of the score of z_i, in the null distribution of its own residual."""
        z, residual = self.score(0.0)
        return float(null_tail(residual, self.problem.random).deviate(np.array([z]))[0])

    def share(self, start: float, error: float) -> tuple[float, float]:
        """The share b at which the data less b z_i show no score of z_i, and its standard error.

        start, error: what is returned where the others leave nothing of z_i.
        """
        share, shape = start, self.problem.centerd.shape
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
        return share, error * self._widening(share, error)

    def _widening(self, share: float, error: float) -> float:
        """By how much more a share may be moved than `error` says until its score tells, >= 1.

        The error of a refit holds for a selection that stays. What is moved may be taken over by
        others that the LASSO selects instead: then the data tell less of it.
        """
        move = _PROBED * error
        fall = self.score(share - move)[0] - self.score(share + move)[0]
        least = 2 * _PROBED / _MAX_WIDENED
        return max(2 * _PROBED / max(fall, least), 1.0)


def _weights(problem: FitProblem, noise: Floats, missing: float) -> Floats:
    """1 / variance of each row, (m, k)."""
    return np.asarray(1 / (np.einsum("jbb->jb", noise) + missing * problem.random.variance))


def _refittable(problem: FitProblem, chosen: LassoFit) -> tuple[Indices, Floats]:
    """What of a selection least squares can tell apart, largest shares first; with its columns.

    At most half of the rows' freedom, and no column that those before it make up: candidates that
    share few bits and cohorts may be one another's sums.
    """
    columns = centerd_columns(problem.positions[chosen.selected], problem.random)
    kept = _independent(columns, chosen.shares, problem.freedom // 2)
    return chosen.selected[kept], columns[:, kept]


def _independent(columns: Floats, shares: Floats, most: int) -> Indices:
    """Which columns (n, A) to keep, ascending."""
    gram = columns.T @ columns
    if len(gram) <= most and np.linalg.eigvalsh(gram).min(initial=np.inf) > _DEPENDENT * len(gram):
        return np.arange(len(gram))
    kept: list[int] = []
    basis = np.empty((len(columns), 0))
    for i in np.argsort(-shares, kind="stable").tolist():
        rest = columns[:, i]
        for _ in range(2):  # twice is enough for orthogonality
            rest = rest - basis @ (basis.T @ rest)
        if len(kept) < most and rest @ rest > _DEPENDENT * gram[i, i]:
            basis = np.column_stack([basis, rest / np.linalg.norm(rest)])
            kept.append(i)
    return np.sort(np.array(kept, dtype=np.intp))
