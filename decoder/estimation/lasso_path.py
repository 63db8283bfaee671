"""The paper's estimator, made honest: LASSO to select, at a penalty set by the noise.

Erlingsson, Pihur, Korolova 2014 (arXiv:1407.6981), section 4, select with the LASSO. Following
the path to its end selects noise; we stop at the penalty that a string which nobody holds rarely
reaches. The fit moves among the columns of the largest scores, and looks at all of them, by a
gather-sum over the index tensor, only to choose those and to check the optimality conditions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from decoder.errors import ConvergenceError
from decoder.estimation.least_squares import centred_sums
from decoder.model.noise import RandomString
from decoder.numerics.bit_tensor import Positions, compiled, gather_sums, scatter_sums
from decoder.typing import Floats, Indices

SHORT_LIST_FACTOR = 0.5  # of the Bonferroni quantile; measured in docs/evaluation/lists.md
LONG_LIST_FACTOR = 0.7
_LEAST_QUANTILE = 1.0  # of the normal: a penalty below it is none, whatever the level
_NEAR = 4096  # columns among which the fit moves between two looks at all of them
_MAX_LOOKS = 200
_ROUGH, _EXACT = 1e-2, 1e-8  # of the penalty, in the conditions: after the first look, and later
_SLACK = 1e-7  # of the penalty: and over the others
_MAX_SWEEPS = 100_000


@dataclass(frozen=True)
class LassoFit:
    """Minimiser of 1/2 sum w (y - Z b)^2 + penalty sum b over b >= 0.

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
    """Penalty at a fraction of the Bonferroni quantile of the score of an absent string.

    weights: 1 / variance of each row, (m, k). The score z_i' W noise has variance sum tr(C W_j).
    strict: the whole quantile for a list longer than the rows, so that hardly any wrong string of
    it is selected.
    """
    sigma = float(np.sqrt(random.variance * weights.sum()))
    quantile = max(-float(ndtri(alpha / num_candidates)), _LEAST_QUANTILE)
    factor = SHORT_LIST_FACTOR
    if num_candidates > weights.size:
        factor = 1.0 if strict else LONG_LIST_FACTOR
    return factor * quantile * sigma


def fit_lasso(
    centred: Floats,
    positions: Positions,
    weights: Floats,
    random: RandomString,
    penalty: float,
    *,
    start: tuple[Indices, Floats] | None = None,
    left_out: int | None = None,
) -> LassoFit:
    """Solve among the columns of the largest scores, until none of the others asks to be let in.

    centred: y - a, (m, k).  positions: (M, m, h).  weights: (m, k), > 0.
    start: indices and shares near the solution.  left_out: a candidate that takes no part.
    """
    near, shares = start or (np.empty(0, dtype=np.intp), np.empty(0))
    residual, accuracy = _residual(centred, positions[near], random, shares), _EXACT
    for look in range(_MAX_LOOKS):
        scores = centred_sums(positions, weights * residual, random)
        if left_out is not None:
            scores[left_out] = -np.inf
        violation = float(scores.max(initial=penalty) / penalty - 1)
        kept, shares = near[shares > 0], shares[shares > 0]
        if accuracy == _EXACT and (look or not len(near)) and _none_outside(scores, near, penalty):
            order = np.argsort(kept)
            return LassoFit(kept[order], shares[order], penalty, violation)
        scores[kept] = -np.inf
        near = np.append(kept, _largest(scores))
        shares = np.append(shares, np.zeros(len(near) - len(kept)))
        problem = centred, positions[near], weights, random, penalty
        accuracy = _EXACT if look or start else _ROUGH
        shares, residual = _descend(*problem, shares, accuracy)
    raise ConvergenceError(
        f"the LASSO still had columns to add after {_MAX_LOOKS} rounds; use a larger penalty"
    )


def _residual(centred: Floats, columns: Positions, random: RandomString, shares: Floats) -> Floats:
    """y - Z b, (m, k), of a few columns."""
    fitted = scatter_sums(columns, shares, random.num_bits)
    return centred - fitted + random.mean * float(shares.sum())


def _none_outside(scores: Floats, near: Indices, penalty: float) -> bool:
    """Whether no column but those in `near` scores above the penalty."""
    above = scores > penalty * (1 + _SLACK)
    above[near] = False
    return not above.any()


def _largest(scores: Floats) -> Indices:
    """The columns of the largest finite scores, best first: descent meets heavy values early."""
    near = np.arange(len(scores))
    if len(scores) > _NEAR:
        near = np.argpartition(scores, -_NEAR)[-_NEAR:]
    near = near[scores[near] > -np.inf]
    return near[np.argsort(-scores[near], kind="stable")]


def _descend(
    centred: Floats,
    columns: Positions,
    weights: Floats,
    random: RandomString,
    penalty: float,
    shares: Floats,
    accuracy: float,
) -> tuple[Floats, Floats]:
    """Coordinate descent over a few columns from `shares`, until their conditions hold.

    accuracy: by how much of the penalty they may be off.

    Returns the shares and the residual y - Z b, (m, k).
    """
    rest = _residual(centred, columns, random, shares)
    padded, weighted = (np.pad(w, ((0, 0), (0, 1))) for w in (weights, weights * rest))
    own, limits = gather_sums(columns, weights), (_MAX_SWEEPS, accuracy)
    off = _sweep(columns, padded, weighted, own, random.mean, penalty, shares, *limits)
    if off > accuracy:
        raise ConvergenceError(
            f"the LASSO of {len(columns)} columns did not converge: after {_MAX_SWEEPS} sweeps a "
            f"condition is off by {off:.1e} of the penalty; use a larger penalty"
        )
    return shares, _residual(centred, columns, random, shares)


@compiled
def _sweep(
    positions: Any,
    weights: Any,
    weighted: Any,
    own: Any,
    mean: float,
    penalty: float,
    shares: Any,
    sweeps: int,
    accuracy: float,
) -> float:
    """Cyclic coordinate descent from `shares`, which it moves; returns by how much of the penalty
    a condition is still off, at most `accuracy` unless the `sweeps` are used up.

    Each step minimises over one share: b <- max(0, b + (z' W r - penalty) / z' W z). Shares above
    0 are swept until they rest, then all (Friedman, Hastie and Tibshirani 2010). weighted: W r,
    (m, k+1), whose centring is kept apart: r = rest + drift.  own: x' W x, (A,).
    """
    count, cohorts, hashes = positions.shape
    total, left, drift = weights.sum(), weighted.sum(), 0.0
    everyone, off = True, 0.0
    for _ in range(sweeps):
        largest = 0.0
        for i in range(count):
            if not everyone and shares[i] == 0.0:
                continue
            score = drift * own[i] - mean * (left + drift * total)
            for j in range(cohorts):
                for g in range(hashes):
                    score += weighted[j, positions[i, j, g]]
            curvature = own[i] * (1 - 2 * mean) + mean * mean * total
            step = max((score - penalty) / curvature, -shares[i])
            if step != 0.0:
                largest = max(largest, abs(step) * curvature / penalty)
                shares[i] += step
                left -= step * own[i]
                drift += mean * step
                for j in range(cohorts):
                    for g in range(hashes):
                        bit = positions[i, j, g]
                        weighted[j, bit] -= step * weights[j, bit]
        if everyone:
            off = largest
            if off <= accuracy:
                break
        everyone = largest <= accuracy
    return off
