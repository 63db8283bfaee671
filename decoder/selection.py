"""The paper's estimator, made honest: LASSO to select, at a penalty set by the noise.

Erlingsson, Pihur, Korolova 2014 (arXiv:1407.6981), section 4, select with the LASSO. Following
the path to its end selects noise; we stop at the penalty that a string which nobody holds rarely
reaches. Columns are found by their scores over the index tensor, so a million candidates cost a
gather-sum each round, and the optimality conditions are checked over all of them at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from decoder.bit_tensor import Positions, compiled, scatter_sums
from decoder.errors import ConvergenceError
from decoder.gls import centred_sums
from decoder.noise import RandomString

Floats = NDArray[np.float64]

SHORT_LIST_FACTOR = 0.5  # of the Bonferroni quantile; measured in docs/decoding.md
LONG_LIST_FACTOR = 0.7
_LEAST_QUANTILE = 1.0  # of the normal: a penalty below it is none, whatever the level
_BATCH = 256  # columns added in one round
_MAX_ROUNDS = 200
_ROUGH, _EXACT = 1e-3, 1e-8  # of the penalty: while columns are added, and at the end
_SLACK = 1e-7  # of the penalty, in the optimality conditions
_MAX_SWEEPS = 100_000


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
    quantile = max(-float(ndtri(alpha / num_candidates)), _LEAST_QUANTILE)
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
    residual, accuracy = centred, _ROUGH
    for _ in range(_MAX_ROUNDS):
        scores = centred_sums(positions, weights * residual, random)
        fresh = _violators(scores, working, penalty)
        if not len(fresh) and accuracy == _EXACT:
            kept = shares > 0
            violation = float((scores / penalty).max(initial=1.0) - 1)
            return LassoFit(working[kept], shares[kept], penalty, max(violation, 0.0))
        accuracy = _ROUGH if len(fresh) else _EXACT
        kept = shares > 0
        working = np.concatenate([working[kept], fresh])
        order = np.argsort(working)
        start = np.concatenate([shares[kept], np.zeros(len(fresh))])[order]
        working = working[order]
        shares, residual = _solve_restricted(
            centred, positions[working], weights, random, penalty, start, accuracy
        )
    raise ConvergenceError(
        f"the LASSO still had columns to add after {_MAX_ROUNDS} rounds; use a larger penalty"
    )


def _violators(scores: Floats, working: NDArray[np.intp], penalty: float) -> NDArray[np.intp]:
    """The columns outside that score most above the penalty, at most a batch."""
    outside = scores.copy()
    outside[working] = -np.inf
    above = np.flatnonzero(outside > penalty * (1 + _SLACK))
    if len(above) <= _BATCH:
        return above
    return above[np.argpartition(-outside[above], _BATCH)[:_BATCH]]


def _solve_restricted(
    centred: Floats,
    columns: Positions,
    weights: Floats,
    random: RandomString,
    penalty: float,
    shares: Floats,
    accuracy: float,
) -> tuple[Floats, Floats]:
    """Coordinate descent on the working set from `shares`, until its conditions hold.

    accuracy: by how much of the penalty they may be off.

    Returns the shares and the residual y - Z b, (m, k).
    """
    padded = np.pad(weights, ((0, 0), (0, 1)))
    fitted = np.pad(scatter_sums(columns, shares, random.num_bits), ((0, 0), (0, 1)))
    rest = np.pad(centred, ((0, 0), (0, 1))) - fitted
    shares, violation = shares.copy(), np.zeros(1)
    _descend(columns, padded, rest, random.mean, penalty, shares, _MAX_SWEEPS, accuracy, violation)
    if violation[0] > 10 * accuracy:
        raise ConvergenceError(
            f"the LASSO of {len(columns)} columns did not converge: after {_MAX_SWEEPS} sweeps a "
            f"condition is off by {violation[0]:.1e} of the penalty; use a larger penalty"
        )
    return shares, rest[:, :-1] + random.mean * float(shares.sum())


@compiled
def _descend(
    positions: Any,
    weights: Any,
    rest: Any,
    mean: float,
    penalty: float,
    shares: Any,
    sweeps: int,
    accuracy: float,
    violation: Any,
) -> None:
    """Cyclic coordinate descent; `rest` (m, k+1) holds y - X b, so that y - Z b = rest + a sum b.

    Each step minimises over one share: b <- max(0, b + (z' W r - penalty) / z' W z). Stops when
    the largest violation of the conditions in a sweep is at most `accuracy`.
    """
    count, cohorts, hashes = positions.shape
    total = weights.sum()
    own = np.zeros(count)
    for i in range(count):
        for j in range(cohorts):
            for g in range(hashes):
                own[i] += weights[j, positions[i, j, g]]
    offset = mean * shares.sum()
    weighted = (weights * rest).sum()
    for _ in range(sweeps):
        violation[0] = 0.0
        for i in range(count):
            score = 0.0
            for j in range(cohorts):
                for g in range(hashes):
                    bit = positions[i, j, g]
                    score += weights[j, bit] * rest[j, bit]
            score += offset * own[i] - mean * (weighted + offset * total)
            curvature = own[i] * (1 - 2 * mean) + mean * mean * total
            step = max((score - penalty) / curvature, -shares[i])
            if step != 0.0:
                violation[0] = max(violation[0], abs(step) * curvature / penalty)
                shares[i] += step
                for j in range(cohorts):
                    for g in range(hashes):
                        rest[j, positions[i, j, g]] -= step
                weighted -= step * own[i]
                offset += mean * step
        if violation[0] <= accuracy:
            return
