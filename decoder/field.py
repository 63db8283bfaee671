"""A map from noisy equations: shares as the softmax of a Gaussian field over the cells.

The prior says how alike cells are: neighbours (a Markov random field on their graph that counts
bends and, less, slopes: Besag 1974; Lindgren, Rue, Lindstroem 2011) or all cells alike, with a
strength. Which, and how strong, is read off the data by the evidence (Laplace's approximation;
MacKay 1992, "Bayesian interpolation"), so a map that is rough is not smoothed away. The result is
positive and sums to 1; at weak priors it comes close to the least-squares fit on the simplex.

Weak data leave the posterior with several summits. They are sought on two ways: down from a flat
map, as the prior is weakened, and from a smoother of the shares themselves, which has one answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from decoder.descent import descend
from decoder.errors import ConvergenceError
from decoder.laplace import factor, log_evidence
from decoder.readings import Reading

Floats = NDArray[np.float64]
Graph = Literal["neighbours", "alike"]

STRENGTHS = (20.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
USUAL_STRENGTH = 0.05
MOST_CELLS_FOR_EVIDENCE = 4_500  # it takes a dense matrix of the cells
_SLOPES = 0.3  # of the weight of bends
_ANCHOR = 0.003  # keeps the level of a component of the graph from drifting; 1 for a lone cell
_SETTLED = 1e-4  # nats that a further step would gain
_MIDDLE = STRENGTHS.index(0.1)
_ENOUGH = 2  # strengths in a row that are worse
_SAME = 0.05  # nats between two fits of one summit
_LOOSER = 0.3  # from one strength of the smoother to the next
_LOOSEST = 1e-8
_LEAST = 0.1  # of an even share: where the smoother goes below
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

    loss: negative log posterior, up to a constant.  gain: evidence over that of all cells having
    the same share, nats; None where the belief was given.
    """

    shares: Floats
    log_shares: Floats
    belief: Belief
    loss: float
    gain: float | None = None

    @property
    def doubts(self) -> tuple[str, ...]:
        """A warning where noise alone might have made the map."""
        if self.gain is None or self.gain > _lucky(len(self.shares)):
            return ()
        return (
            f"The data hardly tell this map from one on which all cells are alike ({self.gain:.1f} "
            "nats of evidence): where the crowd is may be noise. Take more reports, a longer "
            "window, coarser cells or a larger epsilon.",
        )


def _lucky(size: int) -> float:
    """What the best of so many cells gains by noise alone: z^2 / 2 at p = 1 / size, nats."""
    return float(np.log(size))


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
    found = _fit(_Question(readings, first.shares), first.belief, structure, first.log_shares)
    return replace(found, gain=first.gain)


class _Question:
    """The readings, each row weighted by its precision if the cells held `held` (n,)."""

    def __init__(self, readings: Sequence[Reading], held: Floats) -> None:
        self.size = len(held)
        self._rows = [(one.design, one.target, one.precision(held)) for one in readings]
        self.freedom = sum(one.freedom for one in readings)

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
    return (laplacian @ laplacian + _SLOPES * laplacian + sparse.diags_array(alone)).tocsr()


def _most_probable(question: _Question, laplacian: Any | None) -> Field:
    """The fit of the highest evidence, with its gain.

    That all cells are alike makes spikes cheap: it must gain more than a spike of noise can. Each
    from the middle strength to weaker ones, then to stronger ones, until two in a row are worse.
    """
    information = question.information()
    even, _ = question.misfit(np.full(question.size, 1 / question.size))
    graphs: tuple[Graph, ...] = ("alike",) if laplacian is None else ("neighbours", "alike")
    best, to_beat = None, -np.inf
    for graph in graphs:
        structure = structure_of(graph, laplacian, question.size)
        for walk in _walks(question, graph, structure):
            worse = 0
            for fits in walk:
                worse += 1
                for fit in fits:
                    gain = even + _evidence(question, information, fit, structure, to_beat - even)
                    if gain > to_beat:
                        best, to_beat, worse = replace(fit, gain=gain), gain, 0
                if worse == _ENOUGH:
                    break
        to_beat += _lucky(question.size)
    if best is None:
        raise ConvergenceError(
            f"no strength of {STRENGTHS[-1]} to {STRENGTHS[0]} gives the map a maximum; "
            "give a belief, or use method 'simplex'"
        )
    return best


def _walks(question: _Question, graph: Graph, structure: Any) -> Sequence[Iterator[list[Field]]]:
    """From the middle strength to weaker ones, and to stronger ones; fitted as far as followed."""
    annealed = _anneal(question, Belief(graph, STRENGTHS[-1]), structure)
    stronger = list(islice(annealed, _MIDDLE))[::-1]
    start = None if graph == "alike" else _smoothed(question, structure)
    return [_summits(question, fits, structure, start) for fits in (annealed, iter(stronger))]


def _summits(
    question: _Question, annealed: Iterator[Field], structure: Any, start: Floats | None
) -> Iterator[list[Field]]:
    """For each strength one fit, or two where the way from `start` leads to another summit."""
    for fit in annealed:
        fits = [fit]
        if start is not None:
            other = _fit(question, fit.belief, structure, start)
            start = other.log_shares
            if abs(other.loss - fit.loss) > _SAME:
                fits.append(other)
        yield fits


def _smoothed(question: _Question, structure: Any) -> Floats:
    """Log shares (n,) of a smoother of the shares: least squares with the prior on them.

    As strong as leaves residuals of the size of the noise (Morozov's principle of discrepancy).
    """
    even, strength = 1 / question.size, STRENGTHS[0]
    shares, misfit = np.full(question.size, even), question.misfit(np.full(question.size, even))[0]
    information = question.own_information()
    while misfit > question.freedom / 2 and strength > _LOOSEST:
        precision = strength / even**2 * structure

        def objective(x: Floats, precision: Any = precision) -> tuple[float, Floats]:
            value, slope = question.misfit(x)
            pull = precision @ (x - even)
            return value + 0.5 * float((x - even) @ pull), slope + pull

        metric = factor(precision + sparse.diags_array(information)).solve
        shares, _, _ = descend(objective, shares, metric, _SETTLED, _STEPS)
        misfit = question.misfit(shares)[0]
        strength *= _LOOSER
    return np.asarray(np.log(np.maximum(shares, _LEAST * even)))


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


def _evidence(
    question: _Question, information: Floats, fit: Field, structure: Any, to_beat: float
) -> float:
    """Log evidence of a fit by Laplace's approximation; -inf where it is below `to_beat`."""
    prior = fit.belief.strength * structure
    _, slope = question.misfit(fit.shares)
    return log_evidence(fit.shares, fit.loss, slope, information, prior, to_beat)


def softmax(field: Floats) -> Floats:
    """Shares (n,) from log shares, positive, sum 1."""
    weights = np.exp(field - field.max())
    return np.asarray(weights / weights.sum())
