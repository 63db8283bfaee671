"""Which estimate a rule would just have accepted, and the intervals that follow from it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from decoder.estimators import Estimate
from decoder.inference import Decision
from decoder.intervals import bisect, selected_interval
from decoder.mixture import SharePrior
from decoder.null_scores import NullTail
from decoder.options import DecodeOptions

Floats = NDArray[np.float64]

_NO_CUT = 8.0  # standard errors below 0: no estimate is that low
_FAR = 40.0  # standard errors: beyond any threshold


def selected_intervals(
    estimate: Estimate, decision: Decision, options: DecodeOptions
) -> tuple[Floats, Floats]:
    """Intervals of the detected that account for their having been chosen; NaN elsewhere, (G,).

    Widened to hold the printed share: the exact interval of an estimate that just passed ends
    below it, which is right on average over choices and useless to read. Widening only adds
    coverage.
    """
    low = np.full(len(estimate.shares), np.nan)
    high = low.copy()
    found = np.flatnonzero(decision.detected)
    if len(found):
        low[found], high[found] = selected_interval(
            estimate.shares[found],
            estimate.std_errors[found],
            _cutoffs(estimate, decision, options, found),
            options.level,
        )
        low = np.minimum(low, estimate.shrunken)
        high = np.maximum(high, estimate.shrunken)
    return low, high


def _cutoffs(
    estimate: Estimate, decision: Decision, options: DecodeOptions, found: NDArray[np.intp]
) -> Floats:
    """The smallest estimate with which each detected candidate would have been accepted, (D,)."""
    by_local_fdr = options.correction == "fdr-eb"
    largest_p = options.largest_p if by_local_fdr else min(decision.cutoff, options.largest_p)
    deviate = np.maximum(-ndtri([largest_p]), -_FAR)
    limit = estimate.tail.score(deviate)
    shares, z, errors = (x[found] for x in (estimate.shares, estimate.z, estimate.std_errors))
    spread = np.divide(shares, z, out=errors.copy(), where=shares * z > 0)
    cutoffs = limit * spread
    if by_local_fdr and estimate.prior is not None:
        by_prior = _local_fdr_cutoffs(estimate.prior, estimate.tail, errors, decision.cutoff)
        cutoffs = np.maximum(cutoffs, by_prior)
    return np.asarray(cutoffs)


def _local_fdr_cutoffs(
    prior: SharePrior, tail: NullTail, errors: Floats, threshold: float
) -> Floats:
    """The estimate at which the local fdr falls to `threshold`, for each standard error, (D,).

    Far below 0 where the prior accepts any estimate: then nothing was selected.
    """

    def rising(shares: Floats) -> Floats:
        return threshold - prior.posterior(shares, errors, tail.deviate(shares / errors)).local_fdr

    return bisect(rising, -_NO_CUT * errors, _FAR * errors)
