"""Maps from noisy equations, where shares are the softmax of a Gaussian field over the cells.

The prior states how alike cells are, and its strength. Either neighbors are alike (a Markov random
field on their graph that penalizes bends and, less, slopes: Besag 1974; Lindgren, Rue, Lindstroem
2011) or all cells are. The kind of prior and the strength are chosen by the evidence, so a rough
map is not smoothed away. If there are too many cells to compute the evidence, both are chosen by
how well each half of the rows predicts the other half. With weak data, the posterior has several
maxima, which are searched in two ways: from a flat map while the prior is weakened, and from a
smoother of the shares themselves, which has a unique solution."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import chdtri

from decoder.density.field_prior import (
    Belief,
    Graph,
    Prior,
    factor,
    log_evidence,
    negative_log_posterior,
    softmax,
)
from decoder.density.linear_system import (
    UNLIKELY,
    LevelEquations,
    Misfit,
    even_evidence,
    even_map,
    own_reserved,
)
from decoder.errors import ConvergenceError
from decoder.numerics.optimization import descend
from decoder.typing import Floats

STRENGTHS = (20.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
MAX_CELLS_FOR_EVIDENCE = 4_500  # the evidence needs a dense matrix of the cells
_TOLERANCE = 1e-4  # nats that an additional step would gain
_MIDDLE = STRENGTHS.index(0.1)
_ENOUGH = 2  # stop after this number of consecutive worse strengths
_NEGLIGIBLE = 4.0  # nats; e^4 times less probable
_SAME = 0.05  # nats; fits closer than this have reached the same maximum
_LOOSER = 0.3  # the factor from one strength of the smoother to the next
_LOOSEST = 1e-8
_MIN_SHARE = 0.1  # the smoother's minimum share, as a fraction of an even share
_EVEN_FIRST = 3.0  # nats; an even map is a priori twenty times as probable
_STEPS = 40  # steps of the descent before its metric is recomputed
_ROUNDS = 25


@dataclass(frozen=True)
class Field:
    """A map fitted by method `field`; log shares and loss are up to a constant."""

    shares: Floats
    log_shares: Floats
    belief: Belief
    loss: float  # The negative log posterior
    gain: float | None = None  # Nats of evidence over equal shares; None if the belief was given

    @property
    def doubts(self) -> tuple[str, ...]:
        """A warning if noise alone might have produced the map; empty otherwise."""
        # the best of n cells gains z^2 / 2 at p = 1 / n by noise alone
        if self.gain is None or self.gain > np.log(len(self.shares)):
            return ()
        return (
            f"The data hardly tell this map from one on which all cells are alike ({self.gain:.1f} "
            "nats of evidence): where the crowd is may be noise. Take more reports, a longer "
            "window, coarser cells or a larger epsilon.",
        )


def fit_field(
    readings: Sequence[LevelEquations],
    laplacian: Any | None,
    belief: Belief | None = None,
    near: Floats | None = None,
    *,
    reserved: int = 0,
) -> Field:
    """Fit a map to the equations of all levels.

    Args:
        readings: The equations of each level.
        laplacian: The graph Laplacian of neighbors (n, n); None for no graph.
        belief: The prior; None to choose it by the evidence (by prediction above 4,500 cells).
        near: Positive shares (n,) at which the fit also starts if `belief` is given; or None.
        reserved: The number of reserved values among the shares; they are last.

    Raises:
        ConvergenceError: There is no finite fit.
    """
    size = readings[0].design.shape[1]
    even = even_map(readings, size, reserved)
    flat = Misfit(readings, even)
    if belief is None and size <= MAX_CELLS_FOR_EVIDENCE:
        first = _most_probable(flat, laplacian, even, reserved)
    else:
        gain = None
        if belief is None:
            belief, gain = _most_predictive(readings, laplacian, even, reserved)
        prior = Prior.of(belief.graph, laplacian, size, reserved)
        first = replace(_highest(flat, prior, belief, even, near), gain=gain)
    if first.doubts:  # an average has no maximum to refine
        return first
    prior = Prior.of(first.belief.graph, laplacian, size, reserved)
    field = _fit(Misfit(readings, first.shares), first.belief, prior, first.log_shares)
    return replace(field, gain=first.gain)


def _highest(
    misfit: Misfit, prior: Prior, belief: Belief, even: Floats, near: Floats | None
) -> Field:
    """Fit from several starts until a fit explains the data; return the fit of the lowest loss."""

    def starts() -> Iterator[Floats]:  # lazy: each start is expensive
        if near is not None:
            yield np.log(own_reserved(misfit, near, prior.reserved))
        *_, annealed = _anneal(misfit, belief, prior, even)
        yield annealed.log_shares
        if belief.graph == "neighbors":
            yield _smoothed(misfit, prior, even)

    fits, noise = [], float(chdtri(misfit.freedom, UNLIKELY))
    for start in starts():
        fits.append(_fit(misfit, belief, prior, start))
        if 2 * misfit.at(fits[-1].shares)[0] <= noise:
            break
    return min(fits, key=lambda fit: fit.loss)


def _graphs(laplacian: Any | None) -> tuple[Graph, ...]:
    return ("alike",) if laplacian is None else ("neighbors", "alike")


def _most_predictive(
    readings: Sequence[LevelEquations], laplacian: Any | None, even: Floats, reserved: int
) -> tuple[Belief, float]:
    """Return the belief by which each half of the rows best predicts the other half, and its gain.

    The gain is in log likelihood of the held-out rows. Strengths are tried from strong to weak,
    until two consecutive strengths are worse."""
    halves = []
    for side in (0, 1):  # every other row, or every other cohort if reports are symbols
        half = []
        for reading in readings:
            rows = np.arange(len(reading.target)) // max(reading.symbols, 1) % 2 == side
            parts = {"target": reading.target[rows], "reports": reading.reports[rows]}
            half.append(replace(reading, design=reading.design[rows], **parts))
        halves.append(Misfit(half, even))
    nothing = sum(fold.at(even)[0] for fold in halves)
    best, gain = Belief(_graphs(laplacian)[0], STRENGTHS[0]), -np.inf
    for graph in _graphs(laplacian):
        prior, worse = Prior.of(graph, laplacian, len(even), reserved), 0
        last = Belief(graph, STRENGTHS[-1])
        for fits in zip(*(_anneal(fold, last, prior, even) for fold in halves), strict=True):
            pairs = zip(fits, reversed(halves), strict=True)
            gained = nothing - sum(other.at(fit.shares)[0] for fit, other in pairs)
            worse += 1
            if gained > gain:
                best, gain, worse = fits[0].belief, gained, 0
            if worse == _ENOUGH:
                break
    return best, gain


def _most_probable(misfit: Misfit, laplacian: Any | None, even: Floats, reserved: int) -> Field:
    """Return the fit with the highest evidence and its gain.

    Strengths are tried from the middle to weaker strengths, then to stronger strengths, until two
    consecutive strengths are worse. The prior that all cells are alike allows spikes, so it must
    gain more evidence than a noise spike can."""
    information = misfit.information()
    nothing = even_evidence(misfit, even, reserved)
    best, to_beat, weighed = None, -np.inf, [(_EVEN_FIRST, even)]
    for graph in _graphs(laplacian):
        prior = Prior.of(graph, laplacian, misfit.size, reserved)
        for walk in _walks(misfit, graph, prior, even):
            worse = 0
            for fits in walk:
                worse += 1
                for fit in fits:
                    precision, least = prior.precision(fit.belief.strength), to_beat + nothing
                    _, slope = misfit.at(fit.shares)
                    score = log_evidence(fit.shares, fit.loss, slope, information, precision, least)
                    gain = score - nothing
                    if np.isfinite(score):
                        weighed.append((gain, fit.shares))
                    if gain > to_beat:
                        best, to_beat, worse = replace(fit, gain=gain), gain, 0
                if worse == _ENOUGH:
                    break
        to_beat += float(np.log(misfit.size))
    if best is None:
        raise ConvergenceError(
            f"no strength of {STRENGTHS[-1]} to {STRENGTHS[0]} gives the map a maximum; "
            "use method 'simplex'"
        )
    if not best.doubts:
        return best
    # the evidence is weak, and no single map is right, so average all maps, weighted by evidence;
    # the even map is included, so that a map with almost no gain is almost even
    weights = np.exp([gain - (best.gain or 0.0) for gain, _ in weighed])
    shares = weights @ np.array([candidate for _, candidate in weighed]) / weights.sum()
    return replace(best, shares=shares, log_shares=np.log(shares))


def _walks(
    misfit: Misfit, graph: Graph, prior: Prior, even: Floats
) -> Sequence[Iterator[list[Field]]]:
    """Return the fits at ever weaker and at ever stronger strengths, as two iterators.

    Each item is the fit at one strength, and a second fit, started at the smoother's shares, if it
    reaches a different maximum."""
    annealed = _anneal(misfit, Belief(graph, STRENGTHS[-1]), prior, even)
    stronger = list(islice(annealed, _MIDDLE))[::-1]
    smoothed = None if graph == "alike" else _smoothed(misfit, prior, even)

    def summits(fits: Iterator[Field], start: Floats | None) -> Iterator[list[Field]]:
        for fit in fits:
            other = None if start is None else _fit(misfit, fit.belief, prior, start)
            start = None if other is None else other.log_shares
            yield [fit, other] if other and abs(other.loss - fit.loss) > _SAME else [fit]

    return [summits(fits, smoothed) for fits in (annealed, iter(stronger))]


def _smoothed(misfit: Misfit, prior: Prior, even: Floats) -> Floats:
    """Estimate log shares (n,) by least squares, with the prior on the shares.

    The prior's strength is chosen so that residuals have the size of the noise (Morozov's
    discrepancy principle)."""
    strength, shares = STRENGTHS[0], even
    value, information = misfit.at(even)[0], misfit.own_information()
    while value > misfit.freedom / 2 and strength > _LOOSEST:
        precision = prior.precision(strength) / even[0] ** 2

        def objective(x: Floats, precision: Any = precision) -> tuple[float, Floats]:
            value, slope = misfit.at(x)
            pull = precision @ (x - even)
            return value + 0.5 * float((x - even) @ pull), slope + pull

        metric = factor(precision + sparse.diags_array(information)).solve
        shares, _, _ = descend(objective, shares, metric, _TOLERANCE, _STEPS)
        value = misfit.at(shares)[0]
        strength *= _LOOSER
    return np.asarray(np.log(np.maximum(shares, _MIN_SHARE * even[0])))


def _anneal(misfit: Misfit, belief: Belief, prior: Prior, even: Floats) -> Iterator[Field]:
    """Fit from the strongest prior down to `belief`; each fit starts at the previous fit.

    A search that began at the weak prior would end on spikes of noise."""
    log_shares = np.log(even)
    stronger = [strength for strength in STRENGTHS if strength > belief.strength]
    for strength in (*stronger, belief.strength):
        fit = _fit(misfit, Belief(belief.graph, strength), prior, log_shares)
        log_shares = fit.log_shares
        yield fit


def _fit(misfit: Misfit, belief: Belief, prior: Prior, start: Floats) -> Field:
    """Maximize the posterior of the log shares, starting at `start` (n,)."""
    precision = prior.precision(belief.strength)
    information = misfit.own_information()
    objective = negative_log_posterior(misfit.at, prior, precision)
    for _ in range(_ROUNDS):
        metric = factor(precision + sparse.diags_array(softmax(start) ** 2 * information)).solve
        start, loss, steps = descend(objective, start, metric, _TOLERANCE, _STEPS)
        if steps < _STEPS:
            break
    if not np.isfinite(loss):
        raise ConvergenceError(
            "a map has no finite fit; check that the counts, the parameters and the cells belong "
            "together"
        )
    return Field(softmax(start), prior.centered(start), belief, loss)
