"""The noise that errors in a list's other values add to each value, as a fixed point.

The decoder's fit subtracts each value as far as it is credible under a prior of shares that is
learned from the same data (docs/method.md). The remainder is the square of its error. The sum of
these squares over the list adds noise to every estimate, and noisier estimates leave larger
remainders, up to a fixed point ("state evolution" of approximate message passing). A prior learned
from one list is not the best prior, especially if few values are held and many candidates have
estimates in the tail of the noise. Therefore this module draws estimates of whole lists, fits the
prior to each as the decoder does, and averages the errors."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from decoder.model.share_prior import SharePrior, flat_prior, improved, ladder, likelihoods
from decoder.typing import Floats

_LISTS = 32  # The number of simulated lists, which are always the same
_CELL = 0.2  # Width of a bin of estimates, in standard errors
_FARTHEST = 9.0  # Largest estimate of a share of 0; the normal tail beyond it is 1e-19
_ROUNDS = 25
_TOLERANCE = 0.005  # Relative to the sum
_EM_STEPS = 20  # Steps for the prior per round, as in the decoder
_PROBABLE = 0.2  # Maximum local false discovery rate of a fitted value, if not all are fitted


class _Noise(NamedTuple):
    """The noise in the estimates of R lists, in standard errors."""

    deviates: Floats  # For the held values, (n, R)
    nobody: Floats  # Number of unheld values in each bin, (z, R)


class _Cells(NamedTuple):
    """The bins' estimates, (c,), with counts and sums of shares and squares by list, (c, R)."""

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
        variance_of: A function that maps this sum to the variance of an estimate.
        shares: The shares of the listed values that devices hold, shape (n,).
        candidates: The length of the list.
        unlisted: The sum of squared shares of values that devices hold but the list lacks.
        full: Whether the fit includes all candidates, not only the probable ones.
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
    rng = np.random.default_rng(0)
    chances = np.diff(ndtr(np.arange(-_FARTHEST, _FARTHEST + _CELL / 2, _CELL)))
    counts = rng.multinomial(nobody, chances / chances.sum(), _LISTS)
    return _Noise(rng.standard_normal((num_values, _LISTS)), counts.T.astype(np.float64))


def _cells(values: Floats, noise: _Noise, error: float) -> _Cells:
    """Divide the estimates in all lists, in units of a share, into bins."""
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
    """Update the priors of all lists; return them and each list's squared error, (R,).

    `prior` is the prior of the previous round, with a column of weights per list."""
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
