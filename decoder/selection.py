"""The paper's estimator, made honest: LASSO to select, at a penalty set by the noise.

Erlingsson, Pihur, Korolova 2014 (arXiv:1407.6981), section 4, select with the LASSO. Following
the path to its end selects noise; we stop at the penalty that a string which nobody holds rarely
reaches. Columns are found by their scores over the index tensor, so a million candidates cost a
gather-sum each round, and the optimality conditions are checked over all of them at the end.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso

from decoder.bit_tensor import Positions
from decoder.errors import ConvergenceError
from decoder.gls import centred_sums, dense_columns
from decoder.noise import RandomString

Floats = NDArray[np.float64]

SHORT_LIST_FACTOR = 0.5  # of the Bonferroni quantile; measured in docs/decoding.md
LONG_LIST_FACTOR = 0.7
_BATCH = 256  # columns added in one round
_MAX_ROUNDS = 200
_SLACK = 1e-7  # of the penalty, in the optimality conditions
_TOLERANCE = 1e-12  # of the inner solver's duality gap, relative
_MAX_SWEEPS = 200_000


@dataclass(frozen=True)
class LassoFit:
    """Minimiser of 1/2 sum w (y - Z b)^2 + penalty sum b over b >= 0.

    selected: indices with b > 0, ascending.  shares: their b.  penalty: as used.
    largest_violation: of the optimality conditions over all M columns, relative to the penalty.
    """

    selected: NDArray[np.intp]
    shares: Floats
    penalty: float
    largest_violation: float


def noise_penalty(
    weights: Floats, random: RandomString, num_candidates: int, alpha: float
) -> float:
    """Penalty at a fraction of the Bonferroni quantile of the score of an absent string.

    weights: 1 / variance of each row, (m, k). The score z_i' W noise has variance sum tr(C W_j).
    """
    sigma = float(np.sqrt(random.variance * weights.sum()))
    quantile = float(norm.isf(alpha / num_candidates))
    short = num_candidates <= weights.size
    return (SHORT_LIST_FACTOR if short else LONG_LIST_FACTOR) * quantile * sigma


def fit_lasso(
    centred: Floats, positions: Positions, weights: Floats, random: RandomString, penalty: float
) -> LassoFit:
    """Solve over all candidates by adding columns until none violates the conditions.

    centred: y - a, (m, k).  positions: (M, m, h).  weights: (m, k), > 0.
    """
    working = np.empty(0, dtype=np.intp)
    shares = np.empty(0)
    residual = centred
    for _ in range(_MAX_ROUNDS):
        scores = centred_sums(positions, weights * residual, random)
        fresh = _violators(scores, working, penalty)
        if not len(fresh):
            kept = shares > 0
            violation = float((scores / penalty).max(initial=1.0) - 1)
            return LassoFit(working[kept], shares[kept], penalty, max(violation, 0.0))
        working = np.sort(np.concatenate([working[shares > 0], fresh]))
        columns = dense_columns(positions[working], random.num_bits) - random.mean
        shares = _solve_restricted(centred, columns, weights, penalty)
        residual = centred - (columns @ shares).reshape(centred.shape)
    raise ConvergenceError(
        f"the LASSO still had columns to add after {_MAX_ROUNDS} rounds; use a larger penalty"
    )


def _violators(scores: Floats, working: NDArray[np.intp], penalty: float) -> NDArray[np.intp]:
    """The columns outside that score most above the penalty, at most a batch."""
    outside = scores.copy()
    outside[working] = -np.inf
    above = np.flatnonzero(outside > penalty * (1 + _SLACK))
    best = np.argsort(-outside[above], kind="stable")[:_BATCH]
    return above[best]


def _solve_restricted(centred: Floats, columns: Floats, weights: Floats, penalty: float) -> Floats:
    """scikit-learn's non-negative LASSO on the working set, rows scaled by sqrt(w)."""
    scale = np.sqrt(weights).ravel()
    model = Lasso(
        alpha=penalty / len(scale),
        positive=True,
        fit_intercept=False,
        precompute=True,
        tol=_TOLERANCE,
        max_iter=_MAX_SWEEPS,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            model.fit(scale[:, None] * columns, scale * centred.ravel())
        except ConvergenceWarning as warning:
            raise ConvergenceError(
                f"the LASSO of {columns.shape[1]} columns did not converge: {warning}"
            ) from warning
    return np.asarray(model.coef_)
