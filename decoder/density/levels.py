"""Combine the densities of several levels of cells, each estimated from the devices that drew
the level.

First upwards: what a level says of a parent is its own estimate and the sum of its children's,
weighed by their variances (Hay, Rastogi, Miklau, Suciu 2010, "Boosting the accuracy of
differentially private histograms through consistency"). Then downwards: a family divides the share
of its parent. How unevenly families do is learnt for each level, as a prior of a child's share
over an even part, by empirical Bayes (`_unevenness`); where a parent is small against the noise its
children share nearly alike, where it is large they get what was estimated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from decoder.errors import DecodeError
from decoder.model.share_prior import SharePrior, fit_weights, flat_prior, steps_up
from decoder.typing import Floats, Indices

_LOWEST = 0.15  # of an even part: the smallest share that the prior tells from none
_EM_STEPS = 60
_NOTHING = 1e-9  # of all: what a parent with less gives is not worth asking about


@dataclass(frozen=True)
class LevelEstimate:
    """Unbiased shares and standard errors, (n,) each, from the devices of one level."""

    shares: Floats
    std_errors: Floats


def reconcile(levels: Sequence[LevelEstimate], parents: Sequence[Indices]) -> list[Floats]:
    """Make shares of every level that are not negative, sum to 1, and add up within families.

    levels: coarse to fine.  parents: for each level but the first, the index in the level above of
    the parent of each cell. Raises DecodeError for parents that do not fit.
    """
    if len(parents) != len(levels) - 1:
        raise DecodeError(f"{len(levels)} levels need {len(levels) - 1} lists of parents")
    for above, below, parent in zip(levels, levels[1:], parents, strict=False):
        if len(parent) != len(below.shares) or parent.max() >= len(above.shares):
            raise DecodeError(f"{len(parent)} parents do not fit {len(below.shares)} cells")
    told = _with_children(levels, parents)
    shares = _divide(np.ones(1), told[0], np.zeros(len(told[0].shares), dtype=np.intp))
    found = [shares]
    for below, parent in zip(told[1:], parents, strict=True):
        found.append(_divide(found[-1], below, parent))
    return found


def _with_children(
    levels: Sequence[LevelEstimate], parents: Sequence[Indices]
) -> list[LevelEstimate]:
    """Each level's estimates with what the levels below say of the same cells."""
    told = [levels[-1]]
    for own, parent in zip(reversed(levels[:-1]), reversed(parents), strict=True):
        below, size = told[0], len(own.shares)
        sums = np.bincount(parent, below.shares, size)
        variance = np.bincount(parent, below.std_errors**2, size)
        childless = np.bincount(parent, minlength=size) == 0
        weight = np.where(childless, 0.0, 1 / np.where(childless, 1.0, variance))
        precision = 1 / own.std_errors**2
        both = (precision * own.shares + weight * sums) / (precision + weight)
        told.insert(0, LevelEstimate(both, 1 / np.sqrt(precision + weight)))
    return told


def _divide(above: Floats, below: LevelEstimate, parent: Indices) -> Floats:
    """Give the share of each parent (p,) to its children (c,): posterior means, scaled to it.

    Shares that are given are not negative if that of the parent is not.
    """
    count, variance = len(above), below.std_errors**2
    size, total = np.bincount(parent, minlength=count), np.bincount(parent, variance, count)
    left = above - np.bincount(parent, below.shares, count)
    adjusted = below.shares + variance * (left / np.maximum(total, 1e-300))[parent]
    variance = variance * (1 - variance / total[parent])  # given the sum of the family
    even = (above / np.maximum(size, 1))[parent]
    asked = (size[parent] > 1) & (even > _NOTHING)
    shares = even.copy()
    if asked.any():
        unit = even[asked]
        ratios, errors = adjusted[asked] / unit, np.sqrt(variance[asked]) / unit
        mean = _unevenness(ratios, errors, size.max()).posterior(ratios, errors).mean
        shares[asked] = unit * np.maximum(mean, 0.0)  # a bump's tail below 0 holds nothing
    sums = np.bincount(parent, shares, count)
    return np.where(
        sums[parent] > 0, shares * (above / np.where(sums > 0, sums, 1.0))[parent], even
    )


def _unevenness(ratios: Floats, errors: Floats, largest: int) -> SharePrior:
    """The prior of a child's share over an even part, learnt from all of a level, (n,) each."""
    prior = flat_prior(steps_up(_LOWEST, float(largest)))
    return fit_weights(prior, ratios, errors, ratios / errors, np.ones(len(ratios)), _EM_STEPS)
