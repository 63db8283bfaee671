"""Weighted least squares on a few candidates, everything else being noise or unlisted strings; and
how much each share of a fit changes with each debiased bit share, while the rest of it stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from decoder.errors import ConvergenceError
from decoder.estimation.least_squares import (
    Balance,
    CandidateSolver,
    Solution,
    balance,
    centerd_columns,
)
from decoder.model.noise import CohortNoise, RandomString
from decoder.numerics.bit_tensor import Positions
from decoder.typing import Floats, Indices


class Refit(NamedTuple):
    """Shares (A,) of a refit, their covariance (A, A) before kappa, and the balance found.

    directions: (n, A), what the residual loses to each column, for each unit of its share.
    """

    shares: Floats
    covariance: Floats
    balance: Balance
    directions: Floats


def refit(noise: Floats, target: Floats, centerd: Floats, random: RandomString) -> Refit:
    """Fit the shares of given columns Z_A (n, A) by weighted least squares; they may be
    negative.

    Raises ConvergenceError where the columns leave nothing of the rows over.
    """
    num_columns, freedom = centerd.shape[1], target.size - len(target)
    if num_columns >= freedom:
        raise ConvergenceError(
            f"{num_columns:,} values are to be told apart by {freedom:,} numbers (the bits of each "
            "cohort but one), which leaves nothing to read the noise from; collect from more "
            "cohorts, or use method 'cavity' with a stricter alpha"
        )
    solver = CandidateSolver(noise, target, centerd, None, random)
    balanced = balance(solver, random, 0.0, 6)
    _, F, _, H = solver.factors(balanced.missing)
    return Refit(H @ (F.T @ target.ravel()), H, balanced, (F @ H) / np.diag(H))


Directions: TypeAlias = Callable[[Indices], Floats]  # of candidates (B,): (n, B)

_NOBODY = np.empty(0, dtype=np.intp)


def fitted_directions(
    positions: Positions,
    random: RandomString,
    solution: Solution,
    members: Indices = _NOBODY,
    left: Floats | None = None,
) -> Directions:
    """The direction V^-1 z_i / (z_i'V^-1 z_i) in which an estimate reads the data.

    members, left: candidates without a belief, ascending, and V_-i^-1 z_i of theirs, (n, A).
    """

    def directions(candidates: Indices) -> Floats:
        columns = centerd_columns(positions[candidates], random)
        weighed = np.asarray(solution.weigh(columns))
        own = np.flatnonzero(np.isin(candidates, members))
        if left is not None and len(own):
            weighed[:, own] = left[:, np.searchsorted(members, candidates[own])]
        information = (columns * weighed).sum(axis=0)
        return np.asarray(weighed / np.where(information == 0, np.inf, information))

    return directions


def own_directions(noise: CohortNoise, bits: NDArray[np.integer[Any]], signs: Floats) -> Directions:
    """The direction in which an estimate reads its own bit: the mean over cohorts of bits (m,
    M), or of the complement where `signs` (M,) are -1."""
    weights, num_bits = noise.reports / noise.reports.sum(), noise.random.num_bits

    def directions(candidates: Indices) -> Floats:
        found = np.zeros((len(weights), num_bits, len(candidates)))
        cohorts, numbers = np.arange(len(weights))[:, None], np.arange(len(candidates))
        found[cohorts, bits[:, candidates], numbers] = weights[:, None] * signs[candidates]
        return found.reshape(-1, len(candidates))

    return directions
