"""Weighted least squares on a few candidates, everything else being noise or unlisted strings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from decoder.errors import ConvergenceError
from decoder.estimation.least_squares import Balance, CandidateSolver, balance
from decoder.model.noise import RandomString
from decoder.typing import Floats


class Refit(NamedTuple):
    """Shares (A,) of a refit, their covariance (A, A) before kappa, and the balance found.

    directions: (n, A), what the residual loses to each column, for each unit of its share.
    """

    shares: Floats
    covariance: Floats
    balance: Balance
    directions: Floats


def refit(
    noise: Floats, target: Floats, centred: Floats, random: RandomString, *, find_tau: bool = True
) -> Refit:
    """Fit the shares of given columns Z_A (n, A) by weighted least squares; they may be
    negative.

    find_tau: otherwise tau stays 0, and all that differs from `noise` is in the ratio.
    Raises ConvergenceError where the columns leave nothing of the rows over.
    """
    num_columns, freedom = centred.shape[1], target.size - len(target)
    if num_columns >= freedom:
        raise ConvergenceError(
            f"{num_columns:,} values are to be told apart by {freedom:,} numbers (the bits of each "
            "cohort but one), which leaves nothing to read the noise from; collect from more "
            "cohorts, or use method 'cavity' with a stricter alpha"
        )
    solver = CandidateSolver(noise, target, centred, None, random)
    balanced = balance(solver, random, 0.0, 6 if find_tau else 0)
    _, F, _, H = solver.factors(balanced.missing)
    return Refit(H @ (F.T @ target.ravel()), H, balanced, (F @ H) / np.diag(H))
