"""How much the errors in the other values of a list add to the noise of each: the fixed point of
the decoder's fit.

The fit takes a value away as far as it believes in it, under a prior of shares that is learnt from
the same data (docs/method.md). What it leaves is the square of its error, and the sum of these over
the list widens every estimate, and wider estimates leave more: a fixed point ("state evolution" of
approximate message passing). A prior that is learnt from one list is not the best one, the less so
the fewer values are held and the more candidates have estimates in the tail of the noise; so
estimates of whole lists are drawn here, the prior is fitted to each as the decoder fits it, and the
mean of the errors is taken.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from decoder.model.share_prior import SharePrior, flat_prior, improved, ladder, likelihoods
from decoder.typing import Floats

_LISTS = 32  # that are drawn, always the same
_CELL = 0.2  # width of a cell of estimates that are handled as one, in standard errors
_FARTHEST = 9.0  # of an estimate of 0: beyond it the normal law has 1e-19
_ROUNDS = 25
_TOLERANCE = 0.005  # of the sum
_EM_STEPS = 20  # of the prior in a round, as in the decoder
_PROBABLE = 0.2  # local false discovery rate up to which a value takes part, if not all do


class _Noise(NamedTuple):
    """Interference in the estimates of R lists, in standard errors.

    deviates: of the held values, (n, R).  nobody: how many of the others are in each cell, (z, R).
    """

    deviates: Floats
    nobody: Floats


class _Cells(NamedTuple):
    """Estimates by cell, (c,); in each list counts, sums of true shares and squares, (c, R)."""

    estimates: Floats
    counts: Floats
    shares: Floats
    squares: Floats


def fixed_point_sum(
    variance_of: Callable[[float], float],
    shares: Floats,
    candidates: int,
    unlisted: float,
    *,
    full: bool,
) -> float:
    """Return the sum of squared errors that the decoder's fit leaves as noise, at its fixed point.

    Args:
        variance_of: of an estimate, given that sum.
        shares: of the listed values that somebody holds, (n,).
        candidates: length of the list.
        unlisted: sum of squared shares of values that are held and not listed.
        full: all candidates take part in the fit, not the probable ones alone.
    """
    values = shares[shares > 0]
    noise = _drawn(len(values), max(candidates - len(values), 0))
    tau, prior = unlisted + float((values**2).sum()), None
    for _ in range(_ROUNDS):
        error = float(np.sqrt(variance_of(tau)))
        cells = _cells(values, noise, error)
        prior, sums = _fitted(prior, cells, error, full=full)
        now = unlisted + float(sums.mean())
        if abs(now - tau) <= _TOLERANCE * max(now, tau):
            return now
        tau = now if now < tau else (tau + now) / 2
    return tau


def _drawn(num_values: int, nobody: int) -> _Noise:
    """Return the noise of the estimates of all lists."""
    rng = np.random.default_rng(0)
    chances = np.diff(ndtr(np.arange(-_FARTHEST, _FARTHEST + _CELL / 2, _CELL)))
    counts = rng.multinomial(nobody, chances / chances.sum(), _LISTS)
    return _Noise(rng.standard_normal((num_values, _LISTS)), counts.T.astype(np.float64))


def _cells(values: Floats, noise: _Noise, error: float) -> _Cells:
    """Return the estimates of all lists, in units of a share, sorted into cells."""
    places = np.floor(values[:, None] / (error * _CELL) + noise.deviates / _CELL).astype(np.int64)
    others = np.arange(len(noise.nobody)) - round(_FARTHEST / _CELL)
    used, place = np.unique(np.concatenate([places.ravel(), others]), return_inverse=True)
    index = place[: places.size] * _LISTS + np.tile(np.arange(_LISTS), len(values))
    shares = np.repeat(values, _LISTS)

    def summed(column: Floats) -> Floats:
        sums = np.bincount(index, column, len(used) * _LISTS).reshape(-1, _LISTS)
        return sums.astype(np.float64)

    counts = summed(np.ones(places.size))
    counts[place[places.size :]] += noise.nobody
    return _Cells((used + 0.5) * _CELL * error, counts, summed(shares), summed(shares**2))


def _fitted(
    prior: SharePrior | None, cells: _Cells, error: float, *, full: bool
) -> tuple[SharePrior, Floats]:
    """The priors of all lists, fitted further, and what a fit with them leaves of each list, (R,).

    prior: of the last round, with a column of weights for each list.
    """
    estimates, errors = cells.estimates, np.full(len(cells.estimates), error)
    start = flat_prior(ladder(estimates, errors))
    weights = np.repeat(start.weights[:, None], _LISTS, axis=1)
    if prior is not None and len(prior.centers) == len(start.centers):
        weights = prior.weights
    rows = likelihoods(start, estimates, errors, estimates / error)
    weights = improved(weights, rows, cells.counts, _EM_STEPS)
    means = start.given_bumps(estimates, errors)[0]
    evidence = rows @ weights
    mean = (rows[:, 1:] * means) @ weights[1:] / evidence
    if not full:
        mean = np.where(rows[:, :1] * weights[0] < _PROBABLE * evidence, mean, 0.0)
    errors_squared = cells.counts * mean**2 - 2 * mean * cells.shares + cells.squares
    return SharePrior(weights, start.centers), errors_squared.sum(axis=0)
