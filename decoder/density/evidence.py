"""Laplace's approximation of the marginal likelihood (evidence) of a field over cells, from two
curvatures.

Softmax shares make the posterior of the log shares lopsided (`field`): neither curvature alone is
to be trusted at a weak prior. MacKay 1992, "Bayesian interpolation".
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack
from scipy.sparse import diags_array
from scipy.sparse.linalg import splu

from decoder.numerics.bit_tensor import compiled
from decoder.typing import Floats


def factor(matrix: Any) -> Any:
    """Factorise a sparse, symmetric, positive definite matrix."""
    return splu(matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0,
                options={"SymmetricMode": True})  # fmt: skip


def log_evidence(
    shares: Floats, loss: float, slope: Floats, information: Floats, prior: Any, to_beat: float
) -> float:
    """Log marginal likelihood, up to a constant; -inf where it is below `to_beat`. At most
    -loss.

    shares: at a maximum of the posterior, (n,).  loss: the negative log posterior there.  slope,
    information: of the misfit in the shares, (n,) and (n, n).  prior: precision of the log shares,
    sparse, (n, n).

    Both curvatures count, and the larger volume is not believed. The expected one (Gauss-Newton)
    lacks what the residuals add: at a weak prior it takes spikes of noise for more probable than
    the truth, by tens of nats. The posterior's own is too small where a summit is about to split.
    """
    if -loss < to_beat:
        return -np.inf
    height = 0.5 * float(np.log(factor(prior).U.diagonal()).sum()) - loss
    mean = information @ shares
    bend = slope - float(shares @ slope)
    curved = _Curvature(information, shares, float(shares @ mean), prior)
    evidence = height - 0.5 * curved.log_determinant(mean + bend, shares * bend)
    if evidence < to_beat:
        return -np.inf
    return min(evidence, height - 0.5 * curved.log_determinant(mean, np.zeros_like(mean)))


@compiled
def _fill(information: Any, around: Any, weight: Any, matrix: Any) -> None:
    """w_a (I_ab - m_a - m_b) w_b on the diagonal and below it."""
    for a in range(len(around)):
        for b in range(a + 1):
            middle = information[a, b] - around[a] - around[b]
            matrix[a, b] = weight[a] * middle * weight[b]


class _Curvature(NamedTuple):
    """X (I - m 1' - 1 m' + c) X + P + diag(d), X = diag(shares), for some m and d, (n,) each."""

    information: Floats
    shares: Floats
    middle: float
    prior: Any

    def log_determinant(self, means: Floats, added: Floats) -> float:
        """Of the matrix (n, n); inf if it is not positive definite.

        Scaled to a diagonal of 1, and with its means taken off first, single precision leaves an
        error of a thousandth.
        """
        own = np.diag(self.information) - 2 * means + self.middle
        scale = self.shares**2 * own + self.prior.diagonal() + added
        if scale.min() <= 0:
            return np.inf
        root = 1 / np.sqrt(scale)
        matrix = np.empty(self.information.shape, dtype=np.float32)
        _fill(self.information, means - self.middle / 2, self.shares * root, matrix)
        prior = (self.prior + diags_array(added)).tocoo()
        below = prior.row >= prior.col
        rows, columns = prior.row[below], prior.col[below]
        matrix[rows, columns] += prior.data[below] * root[rows] * root[columns]
        upper, failed = lapack.spotrf(matrix.T, lower=0, clean=0, overwrite_a=1)
        if failed:
            return np.inf
        diagonal = np.diag(upper).astype(np.float64)
        return float(np.log(scale).sum() + 2 * np.log(diagonal).sum())
