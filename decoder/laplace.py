"""Laplace's approximation of the evidence for a field over cells, from both of its curvatures.

Softmax shares make the posterior of the log shares lopsided (`field`): neither curvature alone is
to be trusted at a weak prior. MacKay 1992, "Bayesian interpolation".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.sparse.linalg import splu

Floats = NDArray[np.float64]


def factor(matrix: Any) -> Any:
    """Factors of a matrix that is sparse, symmetric and positive definite."""
    return splu(matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0,
                options={"SymmetricMode": True})  # fmt: skip


def log_evidence(
    shares: Floats, loss: float, slope: Floats, information: Floats, prior: Any, to_beat: float
) -> float:
    """Log evidence, up to a constant; -inf where it is below `to_beat`. At most -loss.

    shares: at a maximum of the posterior, (n,).  loss: the negative log posterior there.  slope,
    information: of the misfit in the shares, (n,) and (n, n).  prior: precision of the log shares,
    sparse, (n, n).

    Both curvatures count, and the larger volume is not believed. The expected one (Gauss-Newton)
    lacks what the residuals add: at a weak prior it takes spikes of noise for more probable than
    the truth, by tens of nats. The posterior's own is too small where a summit is about to split.
    """
    if -loss < to_beat:
        return -np.inf
    x = shares
    height = 0.5 * float(np.log(factor(prior).U.diagonal()).sum()) - loss
    mean = information @ x
    expected = information - mean[:, None]
    expected -= mean - float(x @ mean)
    expected *= x[:, None]
    expected *= x
    expected += prior.toarray()
    bend = x * (slope - float(x @ slope))
    own = expected - np.outer(x, bend)
    own -= np.outer(bend, x)
    own[np.diag_indices_from(own)] += bend
    evidence = height - 0.5 * _log_determinant(own)
    if evidence < to_beat:
        return -np.inf
    return min(evidence, height - 0.5 * _log_determinant(expected))


def _log_determinant(matrix: Floats) -> float:
    """Of a symmetric matrix (n, n); inf if it is not positive definite.

    Scaled to a diagonal of 1, single precision leaves an error of a thousandth.
    """
    scale = np.diag(matrix)
    if scale.min() <= 0:
        return np.inf
    root = (1 / np.sqrt(scale)).astype(np.float32)
    scaled = matrix.astype(np.float32)
    scaled *= root[:, None]
    scaled *= root
    lower, failed = lapack.spotrf(scaled.T, lower=1, overwrite_a=1)
    if failed:
        return np.inf
    return float(np.log(scale).sum() + 2 * np.log(np.diag(lower).astype(np.float64)).sum())
