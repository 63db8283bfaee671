"""A map from noisy equations: shares as the softmax of a Gaussian field over the cells.

The prior says how alike cells are: neighbours (a Markov random field on their graph: Besag 1974)
or all cells alike, with a strength. Which, and how strong, is read off the data by the evidence
(Laplace's approximation; MacKay 1992, "Bayesian interpolation"), so a map that is rough is not
smoothed away. The result is positive and sums to 1; at weak priors it comes close to the
least-squares fit on the simplex.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import lapack
from scipy.sparse.linalg import splu

from decoder.descent import descend
from decoder.errors import ConvergenceError
from decoder.readings import Reading

Floats = NDArray[np.float64]
Graph = Literal["neighbours", "alike"]

STRENGTHS = (20.0, 10.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.1, 0.05, 0.02)
USUAL_STRENGTH = 0.1
MOST_CELLS_FOR_EVIDENCE = 4_500  # it takes a dense matrix of the cells
_ANCHOR = 0.003  # keeps the level of a component of the graph from drifting; 1 for a lone cell
_CLEARLY = 3.0  # nats of evidence
_SETTLED = 1e-4  # nats that a further step would gain
_MIDDLE = STRENGTHS.index(0.2)
_ENOUGH = 2  # strengths in a row that are worse
_STEPS = 40  # before the metric of the descent is taken afresh
_ROUNDS = 25


@dataclass(frozen=True)
class Belief:
    """A prior: precision `strength * structure` of the log shares about a common level."""

    graph: Graph
    strength: float


@dataclass(frozen=True)
class Field:
    """A fitted map. shares: (n,), positive, sum 1.  log_shares: up to a constant.

    loss: negative log posterior, up to a constant.
    """

    shares: Floats
    log_shares: Floats
    belief: Belief
    loss: float


def fit_field(
    readings: Sequence[Reading],
    laplacian: Any | None,
    belief: Belief | None = None,
    near: Floats | None = None,
) -> Field:
    """Fit a map to the readings. laplacian: of the graph of neighbours (n, n), None for no graph.

    belief: fixed, or None to choose it by the evidence (up to 4,500 cells; above, the usual one).
    near: positive shares (n,) that a fit with a fixed belief starts from, as of another window.
    Raises ConvergenceError where there is no finite fit.
    """
    size = readings[0].design.shape[1]
    flat = _Question(readings, np.full(size, 1 / size))
    if belief is None and size <= MOST_CELLS_FOR_EVIDENCE:
        first = _most_probable(flat, laplacian)
    else:
        belief = belief or _usual(laplacian)
        structure = structure_of(belief.graph, laplacian, size)
        if near is not None:
            first = _fit(flat, belief, structure, np.log(near))
        else:
            *_, first = _anneal(flat, belief, structure)
    structure = structure_of(first.belief.graph, laplacian, size)
    return _fit(_Question(readings, first.shares), first.belief, structure, first.log_shares)


class _Question:
    """The readings, each row weighted by its precision if the cells held `held` (n,)."""

    def __init__(self, readings: Sequence[Reading], held: Floats) -> None:
        self.size = len(held)
        self._rows = [(one.design, one.target, one.precision(held)) for one in readings]

    def misfit(self, shares: Floats) -> tuple[float, Floats]:
        """Half the weighted squares of the residuals, and their slope in the shares (n,)."""
        value, slope = 0.0, np.zeros(self.size)
        for design, target, weight in self._rows:
            residual = design @ shares - target
            weighted = weight * residual
            value += 0.5 * float(residual @ weighted)
            slope += weighted @ design
        return value, slope

    def own_information(self) -> Floats:
        """The diagonal of the information about the shares, (n,); designs hold 0 and 1."""
        return np.asarray(sum(weight @ design for design, _, weight in self._rows))

    def information(self) -> Floats:
        """The information about the shares, (n, n)."""
        parts = [design.T @ design.multiply(w[:, None]) for design, _, w in self._rows]
        return np.asarray(sum(part.toarray() for part in parts))


def _usual(laplacian: Any | None) -> Belief:
    return Belief("alike" if laplacian is None else "neighbours", USUAL_STRENGTH)


def structure_of(graph: Graph, laplacian: Any | None, size: int) -> Any:
    """The precision (n, n) of log shares at strength 1, sparse."""
    if graph == "alike" or laplacian is None:
        return sparse.eye_array(size, format="csr")
    alone = np.where(laplacian.diagonal() > 0, _ANCHOR, 1.0)
    return (laplacian + sparse.diags_array(alone)).tocsr()


def _most_probable(question: _Question, laplacian: Any | None) -> Field:
    """The fit of the highest evidence; one that takes cells for alike must be clearly higher.

    From the usual strength to weaker ones, then to stronger ones, until two in a row are worse.
    """
    information = question.information()
    graphs: tuple[Graph, ...] = ("alike",) if laplacian is None else ("neighbours", "alike")
    best, to_beat = None, -np.inf
    for graph in graphs:
        structure = structure_of(graph, laplacian, question.size)
        fits = list(_anneal(question, Belief(graph, STRENGTHS[-1]), structure))
        for walk in (fits[_MIDDLE:], fits[_MIDDLE - 1 :: -1]):
            worse = 0
            for fit in walk:
                evidence = _evidence(question, information, fit, structure, to_beat)
                if evidence > to_beat:
                    best, to_beat, worse = fit, evidence, 0
                elif (worse := worse + 1) == _ENOUGH:
                    break
        to_beat += _CLEARLY
    if best is None:
        raise ConvergenceError(
            f"no strength of {STRENGTHS[-1]} to {STRENGTHS[0]} gives the map a maximum; "
            "give a belief, or use method 'simplex'"
        )
    return best


def _anneal(question: _Question, belief: Belief, structure: Any) -> Iterator[Field]:
    """Fits from the strongest prior down to `belief`, each from the one before.

    The posterior has several summits at a weak prior. The way down from a smooth map leads to one
    near it; a search at once would end on spikes of noise.
    """
    log_shares = np.zeros(question.size)
    stronger = [strength for strength in STRENGTHS if strength > belief.strength]
    for strength in (*stronger, belief.strength):
        fit = _fit(question, Belief(belief.graph, strength), structure, log_shares)
        log_shares = fit.log_shares
        yield fit


def _fit(question: _Question, belief: Belief, structure: Any, start: Floats) -> Field:
    """Maximise the posterior of the log shares, from `start` (n,)."""
    precision = belief.strength * structure
    information = question.own_information()

    def objective(field: Floats) -> tuple[float, Floats]:
        shares = softmax(field)
        value, slope = question.misfit(shares)
        centred = field - field.mean()
        pull = precision @ centred
        slope = shares * (slope - float(slope @ shares)) + pull - pull.mean()
        return value + 0.5 * float(centred @ pull), slope

    for _ in range(_ROUNDS):
        metric = factor(precision + sparse.diags_array(softmax(start) ** 2 * information)).solve
        start, loss, steps = descend(objective, start, metric, _SETTLED, _STEPS)
        if steps < _STEPS:
            break
    if not np.isfinite(loss):
        raise ConvergenceError(
            "the map has no finite fit; check that the counts, the parameters and the cells "
            "belong together"
        )
    return Field(softmax(start), start - start.mean(), belief, loss)


def factor(matrix: Any) -> Any:
    """Factors of a matrix that is sparse, symmetric and positive definite."""
    return splu(matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0,
                options={"SymmetricMode": True})  # fmt: skip


def _evidence(
    question: _Question, information: Floats, fit: Field, structure: Any, to_beat: float
) -> float:
    """Log evidence by Laplace's approximation; -inf where it is below `to_beat`. At most -loss.

    Both curvatures count, and the larger volume is not believed. The expected one (Gauss-Newton)
    lacks what the residuals add: at a weak prior it takes spikes of noise for more probable than
    the truth, by tens of nats. The posterior's own is too small where a summit is about to split.
    """
    if -fit.loss < to_beat:
        return -np.inf
    prior, x = fit.belief.strength * structure, fit.shares
    height = 0.5 * float(np.log(factor(prior).U.diagonal()).sum()) - fit.loss
    _, slope = question.misfit(x)
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
    factor, failed = lapack.spotrf(scaled.T, lower=1, overwrite_a=1)
    if failed:
        return np.inf
    return float(np.log(scale).sum() + 2 * np.log(np.diag(factor).astype(np.float64)).sum())


def softmax(field: Floats) -> Floats:
    """Shares (n,) from log shares, positive, sum 1."""
    weights = np.exp(field - field.max())
    return np.asarray(weights / weights.sum())
