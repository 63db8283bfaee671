"""From counts of noisy bits to unbiased shares of set bits.

Erlingsson, Pihur, Korolova 2014 (arXiv:1407.6981), section 4.
"""

from __future__ import annotations

import numpy as np

from decoder.errors import DecodeError
from decoder.model.noise import BitNoise
from decoder.typing import Floats


def debias(bit_counts: Floats, reports_per_cohort: Floats, noise: BitNoise) -> Floats:
    """t_ij / N_j = (c_ij / N_j - p*) / (q* - p*): unbiased shares of set bits, (m, k).

    bit_counts: (m, k).  reports_per_cohort: (m,), all above 0. Values may leave [0, 1]: they are
    unbiased, not clipped. Raises DecodeError for shapes that do not fit or an empty cohort.
    """
    if bit_counts.ndim != 2 or reports_per_cohort.shape != bit_counts.shape[:1]:
        raise DecodeError(
            f"bit counts of shape {bit_counts.shape} do not fit reports per cohort of shape "
            f"{reports_per_cohort.shape}; expected (m, k) and (m,)"
        )
    if (reports_per_cohort <= 0).any():
        empty = np.flatnonzero(reports_per_cohort <= 0).tolist()
        raise DecodeError(f"cohorts {empty} have no reports; leave them out before debiasing")
    if noise.gap == 0:
        raise DecodeError("q_star = p_star: the reports hold no information (f = 1 or p = q)")
    return unbiased(bit_counts / reports_per_cohort[:, None], noise)


def unbiased(frequencies: Floats, noise: BitNoise) -> Floats:
    """(c / N - p*) / (q* - p*): share of set bits from the frequency of reported ones."""
    return np.asarray((frequencies - noise.p_star) / noise.gap)


def unbiased_change(before: Floats, after: Floats, noise: BitNoise) -> Floats:
    """Difference of the shares of set bits, from two frequencies of reported ones: p* cancels."""
    return np.asarray((after - before) / noise.gap)
