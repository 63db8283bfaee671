"""The least error of any unbiased table of two linked one-hot metrics: the bound of Cramér and
Rao.

A report holds all bits of both metrics. The Fisher information of the shares of all pairs of values
is a sum over all pairs of bit strings; its inverse, for shares that sum to 1, bounds the covariance
of every unbiased estimate. Limits are draws of normal estimates, which is what estimates of many
reports are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from decoder.association.linked import Side
from decoder.association.moments import Moments, fit_moments
from decoder.association.table import nearest_table
from decoder.numerics.simplex import contrasts
from decoder.typing import Floats

MOST_BITS = 12  # of a metric: 2^12 strings


class Normal(NamedTuple):
    """Estimates of a table (M1, M2): their covariance, and the weights of `nearest_table`."""

    covariance: Floats
    weights: Floats

    def unbiased_distance(self) -> float:
        """Mean total variation between the true table and its unbiased estimate."""
        errors = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        return float(errors.sum() / np.sqrt(2 * np.pi))

    def fitted_distance(self, truth: Floats, rng: np.random.Generator) -> float:
        """Total variation between the truth and one drawn estimate, fitted to tables without
        negative shares."""
        drawn = rng.multivariate_normal(truth.ravel(), self.covariance, method="eigh")
        fitted = nearest_table(drawn.reshape(truth.shape), self.weights, steps=2_000)
        return float(np.abs(fitted - truth).sum() / 2)


def efficient(truth: Floats, reports: int, first: Side, second: Side) -> Normal:
    """The best unbiased estimate of a table (M1, M2) without a share of 0. One cohort.

    Raises ValueError for more than 12 bits.
    """
    rows, columns = _chances(first), _chances(second)
    chance = rows @ truth @ columns.T
    squares = [(part[:, :, None] * part[:, None, :]).reshape(len(part), -1)
               for part in (rows, columns)]  # fmt: skip
    sums = squares[0].T @ (reports / chance) @ squares[1]
    one, other = truth.shape
    four = sums.reshape(one, one, other, other).transpose(0, 2, 1, 3)
    basis = contrasts(truth.size)
    free = basis.T @ four.reshape(truth.size, truth.size) @ basis
    return Normal(basis @ np.linalg.inv(free) @ basis.T, basis @ free @ basis.T)


def by_moments(truth: Floats, reports: int, first: Side, second: Side) -> Normal:
    """The estimate's normal law that the decoder's moments give for the same table, with one
    cohort."""
    sides = first, second
    means = [np.vstack([np.ones((1, side.designs.shape[2])),
                        side.noise.p_star + side.noise.gap * side.designs[0]])
             for side in sides]  # fmt: skip
    counts = reports * means[0] @ truth @ means[1].T
    fit = fit_moments(Moments.of(counts[None], *sides))
    return Normal(fit.covariance(), fit.curvature)


def _chances(side: Side) -> Floats:
    """Chance of every string of bits given every value, (2^k, M)."""
    num_bits = side.designs.shape[1]
    if num_bits > MOST_BITS:
        raise ValueError(f"{num_bits} bits have 2^{num_bits} strings; {MOST_BITS} at most")
    bits = (np.arange(2**num_bits)[:, None] >> np.arange(num_bits)) & 1
    ones = side.noise.p_star + side.noise.gap * side.designs[0]
    return np.asarray(np.exp(bits @ np.log(ones) + (1 - bits) @ np.log1p(-ones)))
