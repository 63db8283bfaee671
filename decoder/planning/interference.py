"""What the values of a list leave in each other's way: the fixed point of the decoder's fit.

The fit takes a value away as far as it believes in it, so that what it leaves is its posterior
variance, under a prior of shares that is learnt from the same data (docs/method.md). The sum of
these variances over the list widens every estimate, and wider estimates leave more: a fixed point
("state evolution" of approximate message passing). Here each value's estimate takes the quantiles
of its distribution, and the prior is fitted to all of them as the decoder fits it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from decoder.model.share_prior import SharePrior, fit_weights, flat_prior, ladder
from decoder.typing import Floats

_NODES = 9  # quantiles that stand for the distribution of an estimate
_ALIKE = 40  # groups of values of like shares
_ROUNDS = 25
_SETTLED = 0.002  # of the sum
_EM_STEPS = 20  # of the prior in a round, as in the decoder
_PROBABLE = 0.2  # local false discovery rate up to which a value takes part, if not all do


class _Crowd(NamedTuple):
    """Values by share, (g,): of each group the share, and how many hold it; the last is 0."""

    shares: Floats
    counts: Floats


def settled_sum(
    variance_of: Callable[[float], float],
    shares: Floats,
    candidates: int,
    unlisted: float,
    *,
    full: bool,
) -> float:
    """Sum of squared shares that a fit with these values present leaves in the noise.

    Args:
        variance_of: of an estimate, given that sum.
        shares: of the listed values that somebody holds, (n,).
        candidates: length of the list.
        unlisted: sum of squared shares of values that are held and not listed.
        full: all candidates take part in the fit, not the probable ones alone.
    """
    crowd = _grouped(shares, candidates)
    levels = (np.arange(_NODES) + 0.5) / _NODES
    steps = ndtri(levels)
    steps /= np.sqrt((steps**2).mean())
    counts = np.repeat(crowd.counts / _NODES, _NODES)
    squares = np.repeat(crowd.shares**2, _NODES)
    left, prior = unlisted + float((crowd.counts * crowd.shares**2).sum()), None
    for _ in range(_ROUNDS):
        error = float(np.sqrt(variance_of(left)))
        estimates = (crowd.shares[:, None] + error * steps).ravel()
        errors = np.full(len(estimates), error)
        prior = _fitted(prior, estimates, errors, counts)
        belief = prior.posterior(estimates, errors)
        variances = belief.variance
        if not full:
            variances = np.where(belief.local_fdr < _PROBABLE, variances, squares)
        now = unlisted + float((counts * variances).sum())
        if abs(now - left) <= _SETTLED * max(now, left):
            return now
        left = (left + now) / 2
    return left


def _grouped(shares: Floats, candidates: int) -> _Crowd:
    """Groups of like shares, with the mean square of each, and those that nobody holds."""
    ranked = np.sort(shares[shares > 0])[::-1]
    edges = np.unique(np.geomspace(1, len(ranked) + 1, _ALIKE + 1).astype(int)) - 1
    groups = [ranked[a:b] for a, b in pairwise(edges)]
    held = [(float(np.sqrt((g**2).mean())), float(len(g))) for g in groups if len(g)]
    held.append((0.0, max(float(candidates - len(ranked)), 0.0)))
    return _Crowd(*map(np.array, zip(*held, strict=True)))


def _fitted(
    prior: SharePrior | None, estimates: Floats, errors: Floats, counts: Floats
) -> SharePrior:
    """The prior of the last round with its bumps where they now belong, fitted further."""
    start = flat_prior(ladder(estimates, errors))
    if prior is not None and len(prior.centres) == len(start.centres):
        start = SharePrior(prior.weights, start.centres)
    return fit_weights(start, estimates, errors, estimates / errors, counts, _EM_STEPS)
