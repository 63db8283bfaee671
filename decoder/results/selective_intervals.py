"""The cutoff of the rule as an estimate, and the intervals after selection that follow from it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

from decoder.estimation.estimate import Estimate
from decoder.inference.intervals import bisect, selected_interval
from decoder.inference.multiple_testing import ListDecision
from decoder.model.null_distribution import NullTail
from decoder.model.share_prior import SharePrior
from decoder.options import DecodeOptions
from decoder.typing import Floats, Indices

_NO_CUT = 8.0  # standard errors below 0: no estimate is that low
_FAR = 40.0  # standard errors: beyond any threshold
_MANY = 1e9  # degrees of freedom: beyond them Student's t is normal
_LEAST_MISSED = 0.2  # of what intervals may miss: for the rightly found, where many are wrong
EVEN_ODDS = 0.5  # local fdr above which a found value is likelier wrong than right
LEAST = 1e-9  # where an interval of a detected share begins that reaches down to it


class FoundIntervals(NamedTuple):
    """Intervals of the detected candidates, NaN elsewhere, (G,)."""

    low: Floats
    high: Floats


def selected_intervals(
    estimate: Estimate, decision: ListDecision, options: DecodeOptions
) -> FoundIntervals:
    """Intervals of the detected that account for their having been chosen; NaN elsewhere, (G,).

    They agree with the decision: where the rule accepts no p-value above (1 - level) / 2, the
    interval of an accepted candidate excludes 0 (docs/method.md, "Intervals and the printed
    share"). They are of shares, from 0 to 1, and hold the unbiased and the printed share as far
    as these are.
    """
    low = np.full(len(estimate.shares), np.nan)
    high = low.copy()
    found = np.flatnonzero(decision.detected)
    if len(found):
        low[found], high[found] = _ends(estimate, decision, options, found)
    return FoundIntervals(low, high)


def _ends(
    estimate: Estimate, decision: ListDecision, options: DecodeOptions, found: Indices
) -> tuple[Floats, Floats]:
    """The conditional interval, its lower end raised to what test and prior both exclude, (D,)."""
    cutoffs = _cutoffs(estimate, decision, options, found)
    shares, printed = estimate.shares[found], estimate.shrunken[found]
    wrong = estimate.local_fdr[found]
    reaching = wrong > EVEN_ODDS
    told_apart = np.where(reaching, 0.0, wrong)[decision.listed(found)]
    level = _level(options.level, float(told_apart.mean()) if told_apart.size else 0.0)
    errors = estimate.std_errors[found] * _student(estimate.freedom, level)
    lows, highs = selected_interval(shares, errors, cutoffs, level)
    tested = np.clip(shares - _margins(estimate, cutoffs, options, found), 0, 1)
    lows = np.maximum(lows, np.minimum(tested, _least_held(estimate, found, (1 - level) / 2)))
    highs = np.maximum(highs, np.clip(shares, 0, 1))
    lows = np.where(reaching, 0.0, np.minimum(lows, printed))
    lows = np.where(lows < LEAST, 0.0, lows)  # the row then says why it reaches 0
    return lows, np.clip(np.maximum(highs, printed), 0, 1)


def _student(freedom: float, level: float) -> float:
    """How much further Student's t reaches than a normal at `level`, at least 1."""
    tail = (1 - level) / 2
    return max(float(stdtrit(min(freedom, _MANY), tail) / ndtri(tail)), 1.0)


def _least_held(estimate: Estimate, found: Indices, tail: float) -> Floats:
    """Below it a part `tail` of the posterior lies if somebody holds the candidate, (D,); above 0.

    What the test of the rule tells from 0 tells it from less than the cutoff, too: by that alone a
    share far below the cutoff, found since it was overestimated, would be outside its interval.
    """
    if estimate.prior is None:
        return np.full(len(found), np.inf)
    shares, errors = estimate.shares[found], estimate.std_errors[found]
    held = estimate.prior.held(shares, errors, estimate.tail.deviate(estimate.z[found]))
    highest = np.maximum(shares, 0) + _FAR * errors
    return bisect(lambda limits: held.below(limits) - tail, np.zeros(len(found)), highest)


def _level(level: float, wrong: float) -> float:
    """The level of the intervals, where a part `wrong` of the found is wrong but told from 0.

    No interval without 0 holds the share of a wrong string. What those miss is taken from what all
    may miss, down to a fifth of it.
    """
    return 1 - max(1 - level - wrong, (1 - level) * _LEAST_MISSED)


def _margins(estimate: Estimate, cutoffs: Floats, options: DecodeOptions, found: Indices) -> Floats:
    """How far below its estimate the test of each detected candidate reaches, (D,).

    As far as the rule's cutoff lies above 0, and no less than a plain interval of the level.
    """
    deviate = -ndtri([(1 - options.level) / 2])
    spread = _spread(estimate, found)
    return np.asarray(np.maximum(cutoffs, estimate.tail.score(deviate) * spread))


def _spread(estimate: Estimate, found: Indices) -> Floats:
    """What a unit of the test's score is as a share, (D,)."""
    shares, z, errors = (x[found] for x in (estimate.shares, estimate.z, estimate.std_errors))
    return np.asarray(np.divide(shares, z, out=errors.copy(), where=shares * z > 0))


def _cutoffs(
    estimate: Estimate, decision: ListDecision, options: DecodeOptions, found: Indices
) -> Floats:
    """The smallest estimate with which each detected candidate would have been accepted, (D,)."""
    by_local_fdr = options.correction == "fdr-eb"
    largest_p = np.full(len(found), options.largest_p)
    if not by_local_fdr:
        largest_p = np.minimum(decision.largest(found), largest_p)
    each, back = np.unique(largest_p, return_inverse=True)
    limit = estimate.tail.score(np.maximum(-ndtri(each), -_FAR))[back]
    cutoffs = limit * _spread(estimate, found)
    if by_local_fdr and estimate.prior is not None:
        errors = estimate.std_errors[found]
        largest = decision.largest(found)
        by_prior = _local_fdr_cutoffs(estimate.prior, estimate.tail, errors, largest)
        cutoffs = np.maximum(cutoffs, by_prior)
    return np.asarray(cutoffs)


def _local_fdr_cutoffs(
    prior: SharePrior, tail: NullTail, errors: Floats, thresholds: Floats
) -> Floats:
    """The estimate at which the local fdr falls to its threshold, for each standard error, (D,).

    Far below 0 where the prior accepts any estimate: then nothing was selected.
    """

    def rising(shares: Floats) -> Floats:
        return thresholds - prior.posterior(shares, errors, tail.deviate(shares / errors)).local_fdr

    return bisect(rising, -_NO_CUT * errors, _FAR * errors)
