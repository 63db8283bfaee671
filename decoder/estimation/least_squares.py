"""Generalized least squares with the covariance of everything that is not a parameter.

V = blockdiag(S_j + tau C) + Z_A diag(s_A^2) Z_A', Z = X - a: noise, unlisted strings, and a
Gaussian prior of the active candidates. There are two ways to compute the same numbers: in the
space of rows (n x n, n = m*k), or in the space of candidates if few are active (Woodbury). `refit`
uses no prior (s -> infinity), so that all else is noise or unlisted strings."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.linalg import lapack

from decoder.errors import ConvergenceError, ImproperError
from decoder.model.noise import RandomString
from decoder.numerics.bit_tensor import (
    Positions,
    dense_columns,
    gather_sums,
    mirror,
    pair_sums,
    quadratic_sums,
    scatter_sums,
)
from decoder.typing import Floats

_TINY = 1e-9
_ROUNDING = 1e-12  # a smaller variance, relative to a residual's sum of squares, is rounding
_ALIKE = 1e-12  # a smaller relative difference of two symbols' variances is rounding
_CLOSE = 0.005  # tolerance of the ratio of observed to expected score variance


class Solution(NamedTuple):
    """The result of one solve with the covariance V."""

    residual: Floats  # u = V^-1 (y - Z m), (m, k)
    information: Floats  # d_i = z_i' V^-1 z_i of the active candidates, (A,)
    expected: float  # The score variance that V implies, sum tr(C [V^-1]_jj)
    weigh: Callable[[Floats], Floats]  # Multiplies V^-1 with columns (n, B)


class Balance(NamedTuple):
    """A solution with the variance tau of unlisted strings that balances its score variance."""

    solution: Solution
    missing: float  # tau
    ratio: float  # Observed over expected variance of an absent string's score; 1 if balanced

    @property
    def excess(self) -> float:
        """The factor kappa >= 1 by which every variance is inflated."""
        return max(1.0, self.ratio)

    @property
    def slack(self) -> float:
        """The factor (at most 1) that shrinks scores if the residual is quieter than V implies."""
        return float(np.sqrt(min(1.0, self.ratio)))


Solver: TypeAlias = Callable[[float], Solution]  # maps tau >= 0 to the solution


def centered_sums(positions: Positions, values: Floats, random: RandomString) -> Floats:
    """Return the products Z' v (M,) of the centered columns with `values` v (m, k)."""
    return gather_sums(positions, values) - random.mean * float(values.sum())


def centered_columns(positions: Positions, random: RandomString) -> Floats:
    """Return the centered columns z_i = x_i - a of a few candidates as a dense matrix (n, A)."""
    return dense_columns(positions, random.num_bits) - random.mean


def null_variance(residual: Floats, random: RandomString) -> Floats:
    """Return the variance of z_i' u over the random positions of a string that no one has.

    This is sum u_j' C u_j, (...), for u (..., m, k), kept above rounding where C u is 0."""
    squares = (residual**2).sum(axis=(-2, -1))
    off = random.covariance * (residual.sum(axis=-1) ** 2).sum(axis=-1)
    within = (random.variance - random.covariance) * squares
    return np.asarray(np.maximum(off + within, _ROUNDING * squares + np.finfo(float).tiny))


def balance(solve: Solver, random: RandomString, start: float, steps: int) -> Balance:
    """Solve for the tau >= 0 at which absent strings' scores vary as V implies (secant steps).

    The equation is sum u_j' C u_j = sum tr(C [V^-1]_jj); 1 - 1/ratio is about linear in tau. Any
    difference that remains after `steps` is in the ratio, so the null variance is still right."""
    tau, history = start, []
    for step_number in range(steps + 1):
        result = unexplained(solve(tau), tau, random)
        history.append((tau, 1 - 1 / result.ratio))
        converged = abs(result.ratio - 1) < _CLOSE or (tau == 0 and result.ratio <= 1)
        if converged or step_number == steps:
            break
        (tau, error), step = history[-1], result.ratio - 1  # Newton's step first, then secant steps
        step *= result.solution.residual.size / result.solution.expected
        if len(history) > 1:
            before, error_before = history[-2]
            if (error_before - error) * (tau - before) > 0:
                step = error * (tau - before) / (error_before - error)
        tau = max(0.0, tau + step)
    return result


def unexplained(solution: Solution, missing: float, random: RandomString) -> Balance:
    """Attach to a solution at tau = `missing` its ratio of observed to expected score variance."""
    observed = float(null_variance(solution.residual, random))
    return Balance(solution, missing, max(observed / solution.expected, _TINY))


def left_out_scores(
    residual: Floats, columns: Floats, directions: Floats, shares: Floats, random: RandomString
) -> Floats:
    """Score each column z_i (n, B) against a fit without it, in null deviations, (B,).

    Without i the residual is u_-i = u + share_i V_-i^-1 z_i, and z_i' u_-i has variance sum u_-ij'
    C u_-ij.

    Args:
        residual: The residual u of the fit with all candidates, (m, k).
        columns: The columns z_i, (n, B).
        directions: V_-i^-1 z_i, (n, B), where V_-i excludes the prior of i.
        shares: The fitted shares of i, (B,).
        random: The distribution of a random string.
    """
    without = residual.ravel()[:, None] + directions * shares
    sums = np.einsum("nb,nb->b", columns, without)
    return np.asarray(sums / np.sqrt(null_variance(without.T.reshape(-1, *residual.shape), random)))


def missing_error(balanced: Balance, freedom: float) -> float:
    """Return the standard error of tau, given the degrees of freedom of the score variance."""
    return float(np.sqrt(2 * freedom) / balanced.solution.expected)


def row_solver(
    noise: Floats, target: Floats, positions: Positions, variances: Floats, random: RandomString
) -> Solver:
    """Build a solver in the space of the rows, for many candidates: cost n^3 + A (m h)^2.

    The arguments of all solvers are noise (m, k, k), target y - Z m (m, k), variances s^2 (A,)."""
    (m, k), a, C = target.shape, random.mean, random.covariance_matrix
    positive, negative = np.maximum(variances, 0.0), variances < 0
    sums = scatter_sums(positions, positive, k).ravel()
    base = pair_sums(positions, positive, k)
    base += a * a * float(positive.sum()) - a * sums[:, None] - a * sums[None, :]
    base = _plus_blocks(base, noise, (m, k))
    widening = centered_columns(positions[negative], random), 1 / variances[negative]

    def solve(missing: float) -> Solution:
        inverse = _widened(inverse_of(_plus_blocks(base, missing * C, (m, k))), *widening)
        residual = (inverse @ target.ravel()).reshape(m, k)
        ones = inverse.sum(axis=1).reshape(m, k)
        cross, square = gather_sums(positions, ones), quadratic_sums(positions, inverse, k)
        information = np.asarray(square - 2 * a * cross + a * a * float(ones.sum()))
        blocks = np.einsum("jajb->jab", inverse.reshape(m, k, m, k))
        expected = float(np.tensordot(blocks.sum(axis=0), C))
        return Solution(residual, information, expected, inverse.__matmul__)

    return solve


def _widened(inverse: Floats, widening: Floats, precisions: Floats) -> Floats:
    """Add negative precisions (L,) along columns (n, L) to an inverse, by Woodbury's identity."""
    if len(precisions):
        wide = inverse @ widening
        inverse -= wide @ inverse_of(np.diag(precisions) + widening.T @ wide) @ wide.T
    return inverse


def contrast_solver(
    noise: Floats, target: Floats, positions: Positions, variances: Floats, random: RandomString
) -> Solver:
    """Build a solver for cohorts of two symbols with equal noise: cost m^3 + A m^2.

    Each cohort then reduces to one number, its contrast: the first share minus the second, over the
    root of 2. Columns lie along the contrasts, and the noise does not mix them with the sums: V is
    a matrix of m contrasts, an eighth of the work of 2 m rows, and a diagonal one of m sums."""
    columns = np.sqrt(0.5) - np.sqrt(2.0) * positions[:, :, 0]  # Z' for the contrasts, (A, m)
    negative, spread = variances < 0, random.variance - random.covariance
    base = columns.T @ (columns * np.maximum(variances, 0.0)[:, None])
    np.einsum("jj->j", base)[:] += noise[:, 0, 0] - noise[:, 0, 1]
    sums = 2 * (noise[:, 0, 0] + noise[:, 0, 1])[:, None]
    widening = columns[negative].T, 1 / variances[negative]

    def solve(missing: float) -> Solution:
        covariance = base.copy()
        np.einsum("jj->j", covariance)[:] += missing * spread
        inverse = _widened(inverse_of(covariance), *widening)

        def weigh(columns: Floats) -> Floats:
            first, second = columns.reshape(len(inverse), 2, -1).transpose(1, 0, 2)
            apart, along = inverse @ (first - second) / 2, (first + second) / sums
            return np.stack([along + apart, along - apart], axis=1).reshape(columns.shape)

        residual = weigh(target.reshape(-1, 1)).reshape(target.shape)
        information = np.einsum("aj,aj->a", columns, columns @ inverse)
        return Solution(residual, information, spread * float(np.trace(inverse)), weigh)

    return solve


def solver_in_rows(
    noise: Floats, target: Floats, positions: Positions, variances: Floats, random: RandomString
) -> Solver:
    """Build a solver for many candidates: in contrasts of two symbols if possible, else in rows."""
    two = (random.num_bits, random.num_hashes) == (2, 1)
    alike = two and np.abs(noise[:, 0, 0] - noise[:, 1, 1]) <= _ALIKE * noise[:, 0, 0]
    make = contrast_solver if np.all(alike) else row_solver
    return make(noise, target, positions, variances, random)


@dataclass(frozen=True)
class CandidateSolver:
    """A solver by Woodbury's formula, for few active candidates: cost m k^3 + n A^2 + A^3."""

    noise: Floats
    target: Floats
    centered: Floats
    precisions: Floats | None  # 1 / s^2, (A,); None for no prior (s = infinity)
    random: RandomString

    def __call__(self, missing: float) -> Solution:
        """Solve with tau = `missing`: V^-1 = D^-1 - F H F', H = (1 / s^2 + G)^-1."""
        m, k = self.target.shape
        C = self.random.covariance_matrix
        blocks, F, G, H = self.factors(missing)

        def weigh(columns: Floats) -> Floats:
            direct = (blocks @ columns.reshape(m, k, -1)).reshape(m * k, -1)
            return np.asarray(direct - F @ (H @ (F.T @ columns)))

        residual = weigh(self.target.reshape(-1, 1)).reshape(m, k)
        K = F.T @ (C @ F.reshape(m, k, -1)).reshape(m * k, -1)
        expected = float((blocks * C).sum()) - float((H * K).sum())
        reduced = np.diag(G) - np.einsum("ab,ab->a", G @ H, G)
        information = reduced if self.precisions is not None else 1 / np.diag(H)
        return Solution(residual, information, expected, weigh)

    def factors(self, missing: float) -> tuple[Floats, Floats, Floats, Floats]:
        """Return D^-1 (m, k, k), F = D^-1 Z_A (n, A), G = Z_A' F, and H of `__call__`, (A, A)."""
        m, k = self.target.shape
        blocks = _block_inverses(_Same(self.noise), missing, self.random)
        F = (blocks @ self.centered.reshape(m, k, -1)).reshape(m * k, -1)
        G = self.centered.T @ F
        beliefs = 0.0 if self.precisions is None else np.diag(self.precisions)
        return blocks, F, G, inverse_of(G + beliefs)


def candidate_solver(
    noise: Floats, target: Floats, positions: Positions, variances: Floats, random: RandomString
) -> CandidateSolver:
    """Build a CandidateSolver from the positions and prior variances of the candidates."""
    return CandidateSolver(
        noise, target, centered_columns(positions, random), 1 / variances, random
    )


class Refit(NamedTuple):
    """Shares (A,) of a refit, their covariance (A, A) without the factor kappa, and the balance."""

    shares: Floats
    covariance: Floats
    balance: Balance
    directions: Floats  # (n, A), the residual's change per unit of each column's share


def refit(noise: Floats, target: Floats, centered: Floats, random: RandomString) -> Refit:
    """Fit shares of columns Z_A (n, A) by weighted least squares.

    Raises ConvergenceError if the columns use up all degrees of freedom."""
    num_columns, freedom = centered.shape[1], target.size - len(target)
    if num_columns >= freedom:
        raise ConvergenceError(
            f"{num_columns:,} values are to be told apart by {freedom:,} numbers (the bits of each "
            "cohort but one), which leaves nothing to read the noise from; collect from more "
            "cohorts, or use method 'cavity' with a stricter alpha"
        )
    solver = CandidateSolver(noise, target, centered, None, random)
    balanced = balance(solver, random, 0.0, 6)
    _, F, _, H = solver.factors(balanced.missing)
    return Refit(H @ (F.T @ target.ravel()), H, balanced, (F @ H) / np.diag(H))


class _Same:
    """An array as a dictionary key, compared by identity."""

    def __init__(self, array: Floats) -> None:
        self.array = array

    def __hash__(self) -> int:
        return id(self.array)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.array is other.array


@lru_cache(maxsize=1)
def _block_inverses(noise: _Same, missing: float, random: RandomString) -> Floats:
    return np.asarray(np.linalg.inv(noise.array + missing * random.covariance_matrix))


def _plus_blocks(matrix: Floats, blocks: Floats, shape: tuple[int, ...]) -> Floats:
    summed, (m, k), cohort = matrix.copy(), shape, np.arange(shape[0])
    summed.reshape(m, k, m, k)[cohort, :, cohort, :] += blocks
    return summed


def inverse_of(matrix: Floats) -> Floats:
    """Invert a symmetric positive definite `matrix` in place; the result is exactly symmetric.

    Raises ImproperError if it is not positive definite."""
    if not len(matrix):
        return matrix
    factor, failed = lapack.dpotrf(matrix.T, lower=0, clean=0, overwrite_a=1)
    upper, failed_inverse = lapack.dpotri(factor, lower=0, overwrite_c=1)
    if failed or failed_inverse:
        raise ImproperError(
            f"the {len(matrix)} x {len(matrix)} covariance is not positive definite; "
            "check that the counts, the parameters and the candidates belong together; where many "
            "candidates share few bits and cohorts, method 'cavity' estimates what can be estimated"
        )
    inverse = np.asarray(upper.T, dtype=np.float64)
    mirror(inverse)
    return inverse
