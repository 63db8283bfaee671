"""The prior and posterior of a map whose log shares are a Gaussian field, and the evidence.

A reserved value (`other`, `no_data`) is outside the graph, and the evidence about the cells must
not depend on it. Its log share, relative to the mean log share of the cells, has precision
RESERVED_PRECISION at every strength. The evidence is Laplace's approximation of the marginal
likelihood, computed from two curvatures (MacKay 1992, "Bayesian interpolation")."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from scipy import sparse
from scipy.linalg import lapack
from scipy.sparse.linalg import splu

from decoder.numerics.bit_tensor import compiled
from decoder.typing import Floats

Graph = Literal["neighbors", "alike"]

RESERVED_PRECISION = 1e-3  # a standard deviation of 32 nats
_SLOPES = 0.3  # the weight of slopes, relative to the weight of bends
_ANCHOR = 0.003  # precision that holds the mean of a component of the graph; 1 for a lone cell


def field_weights(slopes: Floats) -> Floats:
    """Return the prior's precisions at strength 1 for eigenvalues (n,) of the graph Laplacian."""
    return slopes**2 + _SLOPES * slopes + _ANCHOR


@dataclass(frozen=True)
class Belief:
    """A map's prior: the log shares have precision `strength * structure` around their mean."""

    graph: Graph
    strength: float


@dataclass(frozen=True)
class Prior:
    """The prior's precision of log shares for one cell graph, at any strength."""

    structure: Any  # The precision at strength 1, sparse (n, n); 0 in the rows of reserved values
    reserved: int  # The number of reserved values at the end

    @classmethod
    def of(cls, graph: Graph, laplacian: Any | None, size: int, reserved: int = 0) -> Self:
        """Build the priors for a graph.

        Args:
            graph: Whether neighbors are alike (`neighbors`), or all cells are (`alike`).
            laplacian: The graph Laplacian (n, n); None for no graph.
            size: The number of values n.
            reserved: The number of reserved values at the end.
        """
        if graph == "alike" or laplacian is None:
            diagonal = np.ones(size)
            diagonal[size - reserved :] = 0.0
            return cls(sparse.diags_array(diagonal).tocsr(), reserved)
        diagonal = np.where(laplacian.diagonal() > 0, _ANCHOR, 1.0)
        diagonal[size - reserved :] = 0.0
        bends = laplacian @ laplacian + _SLOPES * laplacian
        return cls((bends + sparse.diags_array(diagonal)).tocsr(), reserved)

    def precision(self, strength: float) -> Any:
        """Return the sparse, positive definite precision (n, n) at a strength."""
        scaled = strength * self.structure
        if not self.reserved:
            return scaled
        diagonal = np.zeros(scaled.shape[0])
        diagonal[-self.reserved :] = RESERVED_PRECISION
        return (scaled + sparse.diags_array(diagonal)).tocsr()

    def centered(self, field: Floats) -> Floats:
        """Return log shares (n,) minus their mean over the cells."""
        return np.asarray(field - self._cells(field).mean(axis=0))

    def uncentered(self, pull: Floats) -> Floats:
        """Convert the gradient in the centered log shares to the gradient in the log shares."""
        result, cells = pull.copy(), self._cells(pull)
        self._cells(result)[...] -= pull.sum(axis=0) / len(cells)
        return result

    def _cells(self, values: Floats) -> Floats:
        return values[: len(values) - self.reserved]


def softmax(field: Floats) -> Floats:
    """Convert log shares (n,) to positive shares that sum to 1."""
    weights = np.exp(field - field.max())
    return np.asarray(weights / weights.sum())


def negative_log_posterior(
    misfit: Callable[[Floats], tuple[float, Floats]], prior: Prior, precision: Any
) -> Callable[[Floats], tuple[float, Floats]]:
    """Return the objective function of a fit, up to a constant.

    Args:
        misfit: A function from shares to half the weighted sum of squared residuals, and its
            gradient.
        prior: The prior, which defines how fields are centered.
        precision: The prior's precision, (n, n).

    Returns:
        A function from log shares (n,) to the negative log posterior and its gradient.
    """

    def objective(field: Floats) -> tuple[float, Floats]:
        shares = softmax(field)
        value, slope = misfit(shares)
        centered = prior.centered(field)
        pull = precision @ centered
        slope = shares * (slope - float(slope @ shares)) + prior.uncentered(pull)
        return value + 0.5 * float(centered @ pull), slope

    return objective


def factor(matrix: Any) -> Any:
    """Factorize a sparse, symmetric, positive definite matrix."""
    return splu(matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0,
                options={"SymmetricMode": True})  # fmt: skip


def log_evidence(
    shares: Floats, loss: float, slope: Floats, information: Floats, prior: Any, to_beat: float
) -> float:
    """Return the log marginal likelihood at a maximum of the posterior, up to a constant.

    The result is at most -loss. The evidence is computed with two curvatures, and the smaller
    evidence is returned. The expected curvature (Gauss-Newton) ignores the residuals: with a weak
    prior, it rates noise spikes tens of nats more probable than the truth. The posterior's own
    curvature is too small where a maximum is about to split.

    Args:
        shares: The shares (n,) at the maximum.
        loss: The negative log posterior.
        slope: The gradient of the misfit in the shares, (n,).
        information: The information of the misfit about the shares, (n, n).
        prior: The precision of the log shares, sparse, (n, n).
        to_beat: A threshold; -inf is returned if the evidence is lower.
    """
    if -loss < to_beat:
        return -np.inf
    height = 0.5 * float(np.log(factor(prior).U.diagonal()).sum()) - loss
    mean = information @ shares
    bend = slope - float(shares @ slope)
    of = partial(_log_determinant, information, shares, float(shares @ mean), prior)
    evidence = height - 0.5 * of(mean + bend, shares * bend)
    if evidence < to_beat:
        return -np.inf
    return min(evidence, height - 0.5 * of(mean, np.zeros_like(mean)))


@compiled
def _fill(information: Any, around: Any, weight: Any, matrix: Any) -> None:
    for a in range(len(around)):
        for b in range(a + 1):
            middle = information[a, b] - around[a] - around[b]
            matrix[a, b] = weight[a] * middle * weight[b]


def _log_determinant(
    information: Floats, shares: Floats, middle: float, prior: Any, means: Floats, added: Floats
) -> float:
    """Return the log determinant of X (I - m 1' - 1 m' + c) X + P + diag(d), X = diag(shares).

    I is `information`, m `means`, c `middle`, P `prior` and d `added`. The result is inf if the
    matrix is not positive definite. It is scaled first, so single precision errs by only .001."""
    terms = np.diag(information) - 2 * means + middle
    scale = shares**2 * terms + prior.diagonal() + added
    if scale.min() <= 0:
        return np.inf
    root = 1 / np.sqrt(scale)
    matrix = np.empty(information.shape, dtype=np.float32)
    _fill(information, means - middle / 2, shares * root, matrix)
    below = sparse.tril(prior + sparse.diags_array(added)).tocoo()
    matrix[below.row, below.col] += below.data * root[below.row] * root[below.col]
    upper, failed = lapack.spotrf(matrix.T, lower=0, clean=0, overwrite_a=1)
    if failed:
        return np.inf
    diagonal = np.diag(upper).astype(np.float64)
    return float(np.log(scale).sum() + 2 * np.log(diagonal).sum())
