"""Generalized least squares where each cohort has two symbols with equal noise.

One symbol's share is 1 less the other's, so that a cohort tells one number, its contrast: the
first share less the second, over the root of 2. A candidate's column lies along the contrasts,
and the noise does not mix them with the sums. V is then a matrix of m contrasts, an eighth of the
work of inverting 2 m rows, and a diagonal one of m sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decoder.estimation.least_squares import Solution, Solver, inverse_of, row_solver
from decoder.model.noise import RandomString
from decoder.numerics.bit_tensor import Positions
from decoder.typing import Floats

_ALIKE = 1e-12  # relative difference of the variances of both symbols that is rounding


@dataclass(frozen=True)
class ContrastSolver:
    """A solver in the contrasts of two symbols: cost m^3 + A m^2 where `RowSolver` needs 8 m^3 +
    A m^2.

    base: V of the contrasts at tau = 0 without the beliefs of negative variance, (m, m).
    sums: variance of the noise along the sums, (m,).  target: y - Z m, (m, 2).  columns: Z' of
    the contrasts, (A, m).  widening, precisions: those of negative variance, (L, m) and (L,).
    """

    base: Floats
    sums: Floats
    target: Floats
    columns: Floats
    widening: Floats
    precisions: Floats
    random: RandomString

    def __call__(self, missing: float) -> Solution:
        """Solve with tau = `missing`."""
        spread = self.random.variance - self.random.covariance
        covariance = self.base.copy()
        np.einsum("jj->j", covariance)[:] += missing * spread
        inverse = inverse_of(covariance)
        if len(self.precisions):
            wide = self.widening @ inverse
            inner = inverse_of(np.diag(self.precisions) + wide @ self.widening.T)
            inverse -= wide.T @ inner @ wide

        def weigh(columns: Floats) -> Floats:
            first, second = columns.reshape(len(inverse), 2, -1).transpose(1, 0, 2)
            apart = inverse @ (first - second) / 2
            along = (first + second) / (2 * self.sums[:, None])
            return np.stack([along + apart, along - apart], axis=1).reshape(columns.shape)

        residual = weigh(self.target.reshape(-1, 1)).reshape(self.target.shape)
        information = np.einsum("aj,aj->a", self.columns, self.columns @ inverse)
        return Solution(residual, information, spread * float(np.trace(inverse)), weigh)


def solver_in_rows(
    noise: Floats, target: Floats, positions: Positions, variances: Floats, random: RandomString
) -> Solver:
    """A solver for many active candidates: in contrasts of the two symbols where possible, else
    in the rows.

    noise: (m, k, k); target y - Z m: (m, k); variances s^2: (A,).
    """
    if (random.num_bits, random.num_hashes) != (2, 1) or (
        np.abs(noise[:, 0, 0] - noise[:, 1, 1]) > _ALIKE * noise[:, 0, 0]
    ).any():
        return row_solver(noise, target, positions, variances, random)
    columns = np.sqrt(0.5) - np.sqrt(2.0) * positions[:, :, 0]
    negative = variances < 0
    base = columns.T @ (columns * np.maximum(variances, 0.0)[:, None])
    np.einsum("jj->j", base)[:] += noise[:, 0, 0] - noise[:, 0, 1]
    sums = noise[:, 0, 0] + noise[:, 0, 1]
    widening = columns[negative], 1 / variances[negative]
    return ContrastSolver(base, sums, target, columns, *widening, random)
