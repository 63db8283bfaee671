"""A map from noisy equations: shares as the softmax of a Gaussian field over the cells.

The prior says how alike cells are: neighbours (a Markov random field on their graph: Besag 1974)
or all cells alike, with a strength tau. Which, and how strong, is read off the data by the
evidence (Laplace's approximation; MacKay 1992, "Bayesian interpolation"), so a map that is rough
is not smoothed away. The result is positive and sums to 1; at weak priors it comes close to
the least-squares fit on the simplex.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor
from scipy.optimize import minimize

from decoder.errors import ConvergenceError
from decoder.readings import Reading

Floats = NDArray[np.float64]
Graph = Literal["neighbours", "alike"]

STRENGTHS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
USUAL_STRENGTH = 0.1
MOST_CELLS_FOR_EVIDENCE = 4_500  # it takes a dense matrix of the cells
_ANCHOR = 0.003  # keeps the level of a component of the graph from drifting; 1 for a lone cell
_HARDLY = 3.0  # nats of evidence
_CLEARLY = 10.0
_MOST_STEPS = 500


@dataclass(frozen=True)
class Belief:
    """A prior: precision `strength * structure` of the log shares about a common level."""

    graph: Graph
    strength: float


@dataclass(frozen=True)
class Field:
    """A fitted map. shares: (n,), positive, sum 1.  log_shares: up to a constant.

    evidence: log probability of the data under the belief, up to a constant; NaN if not computed.
    """

    shares: Floats
    log_shares: Floats
    belief: Belief
    evidence: float


def fit_field(
    readings: Sequence[Reading],
    laplacian: Any | None,
    belief: Belief | None = None,
    near: Floats | None = None,
) -> Field:
    """Fit a map to the readings. laplacian: of the graph of neighbours (n, n), None for no graph.

    belief: fixed, or None to choose it by the evidence (up to 4,500 cells; above, the usual one).
    near: positive shares (n,) that a fit with a fixed belief starts from, as of another window.
    Raises ConvergenceError where the fit does not settle.
    """
    size = readings[0].design.shape[1]
    start = np.zeros(size) if near is None else np.log(near)
    chosen = belief
    if chosen is None and size > MOST_CELLS_FOR_EVIDENCE:
        chosen = Belief("neighbours" if laplacian is not None else "alike", USUAL_STRENGTH)
    if chosen is None:
        graphs: tuple[Graph, ...] = ("alike",) if laplacian is None else ("neighbours", "alike")
        found = [_climb(readings, graph, _structure(graph, laplacian, size)) for graph in graphs]
        best = max(found, key=lambda field: field.evidence)
        chosen, start = best.belief, best.log_shares
    else:
        best = _fit(readings, chosen, _structure(chosen.graph, laplacian, size), start, near)
        start = best.log_shares
    structure = _structure(chosen.graph, laplacian, size)
    again = _fit(readings, chosen, structure, start, held=best.shares)
    return Field(again.shares, again.log_shares, chosen, best.evidence)


def _structure(graph: Graph, laplacian: Any | None, size: int) -> Any:
    identity = sparse.eye_array(size, format="csr")
    if graph == "alike" or laplacian is None:
        return identity
    alone = np.where(laplacian.diagonal() > 0, _ANCHOR, 1.0)
    return (laplacian + sparse.diags_array(alone)).tocsr()


def _climb(readings: Sequence[Reading], graph: Graph, structure: Any) -> Field:
    """Go through the strengths from weak to strong, until the evidence has clearly fallen.

    Each fit starts from the one before: the posterior has several summits, and the way from a
    weak prior leads to a high one. Of strengths that the data hardly tell apart, the strongest is
    taken: the evidence is approximate, and too rough a map costs more than too smooth a one.
    """
    constant = 0.5 * _log_determinant(structure.toarray())
    start = np.zeros(structure.shape[0])
    fits: list[Field] = []
    for strength in STRENGTHS:
        fit = _fit(readings, Belief(graph, strength), structure, start)
        evidence = _evidence(readings, fit, structure) + constant
        fits.append(Field(fit.shares, fit.log_shares, fit.belief, evidence))
        start = fit.log_shares
        best = max(field.evidence for field in fits)
        if all(field.evidence < best - _CLEARLY for field in fits[-2:]):
            break
    return [field for field in fits if field.evidence >= best - _HARDLY][-1]


def _fit(
    readings: Sequence[Reading],
    belief: Belief,
    structure: Any,
    start: Floats,
    held: Floats | None = None,
) -> Field:
    """Maximise the posterior of the log shares. held: shares at which the noise is taken."""
    size = len(start)
    held = np.full(size, 1 / size) if held is None else held
    weights = [reading.precision(held) for reading in readings]
    objective = _objective(readings, weights, belief.strength * structure)
    found = minimize(objective, start, jac=True, method="L-BFGS-B",
                     options={"maxiter": _MOST_STEPS, "maxfun": 2 * _MOST_STEPS})  # fmt: skip
    if not np.isfinite(found.fun):
        raise ConvergenceError(
            "the map has no finite fit; check that the counts, the parameters and the cells "
            "belong together"
        )
    return Field(softmax(found.x), found.x - found.x.mean(), belief, float("nan"))


def _objective(
    readings: Sequence[Reading], weights: Sequence[Floats], precision: Any
) -> Callable[[Floats], tuple[float, Floats]]:
    """Negative log posterior of the log shares (n,), and its gradient."""

    def objective(field: Floats) -> tuple[float, Floats]:
        shares = softmax(field)
        value, slope = 0.0, np.zeros(len(field))
        for reading, weight in zip(readings, weights, strict=True):
            residual = reading.design @ shares - reading.target
            value += 0.5 * float(residual @ (weight * residual))
            slope += reading.design.T @ (weight * residual)
        slope = shares * (slope - float(slope @ shares))
        centred = field - field.mean()
        pull = precision @ centred
        value += 0.5 * float(centred @ pull)
        return value, slope + pull - pull.mean()

    return objective


def _evidence(readings: Sequence[Reading], fit: Field, structure: Any) -> float:
    """Log evidence by Laplace's approximation, without the determinant of the structure."""
    size = len(fit.shares)
    flat = np.full(size, 1 / size)
    weights = [reading.precision(flat) for reading in readings]
    precision = fit.belief.strength * structure
    loss, _ = _objective(readings, weights, precision)(fit.log_shares)
    hessian = precision.toarray()
    x = fit.shares
    for reading, weight in zip(readings, weights, strict=True):
        scaled = reading.design.multiply(weight[:, None])
        information = np.asarray((reading.design.T @ scaled).toarray())
        row = information @ x
        spread = information - row[:, None] - row[None, :] + float(x @ row)
        hessian += spread * np.outer(x, x)
    half = 0.5 * _log_determinant(hessian)
    return 0.5 * size * float(np.log(fit.belief.strength)) - loss - half


def _log_determinant(matrix: Floats) -> float:
    factor, _ = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
    return 2.0 * float(np.log(np.diag(factor)).sum())


def softmax(field: Floats) -> Floats:
    """Shares (n,) from log shares, positive, sum 1."""
    weights = np.exp(field - field.max())
    return np.asarray(weights / weights.sum())
