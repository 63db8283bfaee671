"""Find cohorts to leave out, since their counts plainly differ from the model (forged reports).

To first order, forged reports move an estimate by no more than `poisoning` says. What they do
beyond is to shake the fit: a cohort that fits nothing raises the noise of all, and values that
were told from it are not any more. Without such a cohort an estimate is that of the others.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from decoder.inference.impossible_counts import impossible_cohorts
from decoder.typing import Floats, Indices
from rappor_core.params import RapporParams

PLAINLY = 1e-6  # chance that any cohort of honest reports has so large a residual
MOST_LEFT_OUT = 0.5  # of the reports: beyond that it is the model that does not hold


def forged_cohorts(
    params: RapporParams, reports: Floats, counts: Floats, repetition: float, scores: Floats
) -> Indices:
    """Find the cohorts whose counts no values give, or whose residuals are far beyond noise.

    Args:
        params: of the metric.
        reports: N_j, (m,), 0 where a cohort is left out already.
        counts: c_jb, (m, k).
        repetition: rho of the reports.
        scores: size of each cohort's residual as a normal deviate, (m,); NaN without reports.
    """
    impossible = impossible_cohorts(params, reports, counts, repetition)
    return np.union1d(plainly_odd(scores), impossible)


def plainly_odd(scores: Floats) -> Indices:
    """Find the cohorts whose residuals, normal deviates (m,) or NaN, are far beyond noise."""
    limit = -float(ndtri(PLAINLY / max(len(scores), 1)))
    return np.flatnonzero(np.nan_to_num(scores) > limit)


def may_be_left_out(odd: Indices, reports: Floats, total: float) -> bool:
    """Whether the cohorts other than `odd` hold at least half of `total` reports. reports: (m,)."""
    return float(reports.sum() - reports[odd].sum()) >= (1 - MOST_LEFT_OUT) * total
