"""Estimates of the cells of a map from its regression: of each by itself, and of several levels.

Of each cell by itself: share, interval, and whether it differs from zero. The intervals are those
of the regression. Where its numbers are few, and fewer than the cells, several lists of shares
explain the data about equally well and a single fit is one of them: a warning says so. Where the
cohorts do not even distinguish a few heavy cells from others, an interval begins at 0 and ends at
what the bits of the cell allow.

Several levels, each estimated from the devices that drew it, are combined first upwards: what a
level says of a parent is its own estimate and the sum of its children, weighed by their variances
(Hay, Rastogi, Miklau, Suciu 2010, "Boosting the accuracy of differentially private histograms
through consistency"). Then downwards: a family divides the share of its parent. How unevenly
families do is learnt for each level, as a prior of the share of a child over an even part, by
empirical Bayes (`_unevenness`); where a parent is small against the noise its children share nearly
alike, where it is large they get what was estimated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from decoder.candidates.lists import Candidates
from decoder.errors import DecodeError
from decoder.model.counts import observe
from decoder.model.share_prior import SharePrior, fit_weights, flat_prior, steps_up
from decoder.results.selective_intervals import LEAST
from decoder.results.tables import Decoding
from decoder.typing import Flags, Floats, Indices
from rappor_core.aggregate import Aggregate
from rappor_core.params import RapporParams

HEAVY = 3  # cells that a map may consist of, which cohorts must tell from all others
MOST_NUMBERS = 192  # that a map is read from; with more, one fit is enough (docs/method.md)


class CellEstimates(NamedTuple):
    """Estimates of each cell by itself, arrays of shape (n,).

    estimate, std_error: unbiased.  low, high: interval, in [0, 1].  detected: tested to be above
    zero.  warnings: about all of them.
    """

    estimate: Floats
    std_error: Floats
    low: Floats
    high: Floats
    detected: Flags
    warnings: tuple[str, ...]


def cell_estimates(
    aggregate: Aggregate, candidates: Candidates, decoding: Decoding
) -> CellEstimates:
    """Estimates and intervals of the cells of one level from its decoding.

    The interval of a detected cell allows for its having been picked out, excludes 0 and holds the
    estimate: one that begins at LEAST says of its lower end no more than the test does.
    """
    table = decoding.candidates
    estimate, error, warnings = table.estimate, table.std_error, decoding.warnings
    low = np.where(table.detected, table.selected_low, table.low)
    high = np.where(table.detected, table.selected_high, table.high)
    excess, too_short = _crowding(aggregate, candidates)
    if excess > 0:
        warnings += _crowded(len(estimate), excess)
    if too_short:
        low, high = np.zeros_like(low), np.maximum(high, _allowed(aggregate, candidates, decoding))
        warnings += _not_located(aggregate.params, len(estimate))
    low = np.where(table.detected, np.maximum(low, LEAST), low)
    return CellEstimates(estimate, error, low.clip(0, 1), high.clip(0, 1), table.detected, warnings)


def _crowding(aggregate: Aggregate, candidates: Candidates) -> tuple[int, bool]:
    """By how many the cells outnumber what their regression has to read, 0 if not crowded; and
    whether the bits of a cell in all cohorts name fewer lists than there are of heavy cells."""
    params = aggregate.params
    if candidates.direct(params):
        return 0, False
    cohorts = sum(count > 0 for count in aggregate.reports_per_cohort)
    numbers = cohorts * (params.num_bits - bool(params.scheme.symbols))
    digits = cohorts * params.num_hashes * math.log2(max(params.num_bits, 2))
    excess = max(len(candidates) - numbers, 0) if numbers <= MOST_NUMBERS else 0
    return excess, digits < HEAVY * math.log2(len(candidates))


def _allowed(aggregate: Aggregate, candidates: Candidates, decoding: Decoding) -> Floats:
    """The most that each cell can hold: no more than its first bit shows in any cohort, (M,).

    One-sided limits, each at the level of the intervals shared by the cohorts.
    """
    positions = candidates.positions(aggregate.params)
    observed = observe(aggregate, positions, decoding.summary.repetition)
    noise, shares = observed.noise, np.clip(observed.bit_shares, 0.0, 1.0)
    variance = noise.bits.mechanism_variance(shares, noise.repetition)
    variance = variance + noise.repetition * shares * (1 - shares)
    tail = (1 - decoding.options.level) / len(shares)
    limits = observed.bit_shares - ndtri(tail) * np.sqrt(variance / noise.reports[:, None])
    first = observed.positions[:, :, 0].astype(np.intp)
    return np.asarray(limits[np.arange(len(limits)), first].min(axis=1).clip(0, 1))


def _crowded(cells: int, excess: int) -> tuple[str, ...]:
    """A warning that the map is one of several."""
    return (
        f"{cells:,} cells are read from {cells - excess:,} numbers: different maps explain them "
        "about equally well. Intervals of 95 % of detected cells hold the truth less often than 95 "
        "times in 100. Use a coarser level, or more cohorts, bits or symbols.",
    )


def _not_located(params: RapporParams, cells: int) -> tuple[str, ...]:
    """A warning that cohorts are too few to say where anybody is, and how many would do."""
    digits = params.num_hashes * math.log2(max(params.num_bits, 2))
    enough = math.ceil(HEAVY * math.log2(cells) / digits)
    return (
        f"{params.num_cohorts} cohorts cannot tell where {HEAVY} heavy cells of {cells:,} are: the "
        "map is one of many that the reports allow, and the interval of each cell begins at 0. "
        f"Declare {enough} cohorts or more.",
    )


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
