"""The paper's estimator, made honest: LASSO to select, at a penalty set by the noise.

Erlingsson, Pihur, Korolova 2014 (arXiv:1407.6981), section 4, select with the LASSO. Following
the path to its end selects noise; we stop at the penalty that a string which nobody holds rarely
reaches. scikit-learn's `Lasso` fits the columns that can enter. All columns are scored, by a
gather-sum over the index tensor, to choose those and to check the optimality conditions.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso

from decoder.errors import ConvergenceError
from decoder.estimation.least_squares import centerd_columns, centerd_sums
from decoder.model.noise import RandomString
from decoder.numerics.bit_tensor import Positions
from decoder.typing import Floats, Indices

SHORT_LIST_FACTOR = 0.5  # of the Bonferroni quantile; measured in docs/evaluation/lists.md
LONG_LIST_FACTOR = 0.7
_MIN_QUANTILE = 1.0  # of the normal: a penalty below it is none, whatever the level
_MAX_ENTERING = 512  # columns added between two checks of all, of which most leave again
_MAX_ROUNDS = 200
_TOLERANCE = 1e-14  # of the squares of the data: the duality gap at which a fit ends
_SLACK = 1e-7  # of the penalty: by how much a column outside the fit may violate its condition
_MAX_SWEEPS = 100_000


@dataclass(frozen=True)
class LassoFit:
    """The minimizer of 1/2 sum w (y - Z b)^2 + penalty sum b over b >= 0.

    selected: indices with b > 0, ascending.  shares: their b.  penalty: as used.
    largest_violation: of the optimality conditions over all M columns, relative to the penalty.
    """

    selected: Indices
    shares: Floats
    penalty: float
    largest_violation: float


def noise_penalty(
    weights: Floats,
    random: RandomString,
    num_candidates: int,
    alpha: float,
    *,
    strict: bool = False,
) -> float:
    """The LASSO penalty, as a fraction of the Bonferroni quantile of an absent string's score.

    weights: 1 / variance of each row, (m, k). The score z_i' W noise has variance sum tr(C W_j).
    strict: the whole quantile for a list longer than the rows, so that hardly any wrong string of
    it is selected.
    """
    sigma = float(np.sqrt(random.variance * weights.sum()))
    quantile = max(-float(ndtri(alpha / num_candidates)), _MIN_QUANTILE)
    factor = SHORT_LIST_FACTOR
    if num_candidates > weights.size:
        factor = 1.0 if strict else LONG_LIST_FACTOR
    return factor * quantile * sigma


def fit_lasso(
    centerd: Floats,
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
        centerd: y - a, (m, k).
        positions: Of the candidates, (M, m, h).
        weights: Of the rows, (m, k), > 0.
        random: Gives the mean a of a column.
        penalty: > 0.
        start: Indices and shares near the solution.
        left_out: A candidate that takes no part.

    Raises:
        ConvergenceError: The optimality conditions could not be met.
    """
    root = np.sqrt(weights).reshape(-1, 1)
    target = root.ravel() * centerd.ravel()
    columns, shares = start or (np.empty(0, dtype=np.intp), np.empty(0))
    matrix = root * centerd_columns(positions[columns], random)
    for looks in range(_MAX_ROUNDS):
        residual = (root.ravel() * (target - matrix @ shares)).reshape(centerd.shape)
        scores = centerd_sums(positions, residual, random)
        if left_out is not None:
            scores[left_out] = -np.inf
        violation = float(scores.max(initial=penalty) / penalty - 1)
        scores[columns] = -np.inf
        entering = _largest_above(scores, penalty * (1 + _SLACK))
        if not len(entering) and (looks or not len(columns)):
            order = np.argsort(columns)
            order = order[shares[order] > 0]
            return LassoFit(columns[order], shares[order], penalty, violation)
        kept = shares > 0
        columns = np.append(columns[kept], entering)
        new = root * centerd_columns(positions[entering], random)
        matrix = np.column_stack([matrix[:, kept], new])
        shares = _minimize(
            matrix, target, penalty, np.append(shares[kept], np.zeros(len(entering)))
        )
    raise ConvergenceError(
        f"the LASSO still had columns to add after {_MAX_ROUNDS} rounds; use a larger penalty"
    )


def _largest_above(scores: Floats, limit: float) -> Indices:
    """The columns whose scores are above `limit`, at most `_MAX_ENTERING`, best first."""
    above = np.flatnonzero(scores > limit)
    return above[np.argsort(-scores[above], kind="stable")][:_MAX_ENTERING]


def _minimize(matrix: Floats, target: Floats, penalty: float, start: Floats) -> Floats:
    """Fit a few columns, (n, A), from the shares `start`, (A,), by scikit-learn."""
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
