"""Counts that no values can give: how many Bloom bits a report has on average, and may have.

Every honest report stands for 1 to h bits of a value (0 or 1 where a value has a bit of its own).
So the debiased counts of a cohort, summed over its bits and divided by its reports, estimate a
number between these limits, whatever values the devices hold. Forged reports do not keep to it: one
with the value's bits alone counts as (h - k p*) / (q* - p*) bits, some hundred below zero.

A cohort with such counts, or plainly unlike the others, is left out: to first order, forged reports
move an estimate by no more than `results.forgeries` says, but a cohort that fits nothing raises the
noise of all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from decoder.model.noise import BitNoise
from decoder.typing import Floats, Indices
from rappor_core.params import RapporParams

FALSE_ALARM = 1e-3  # of a decoding of honest reports, at most: half for all cohorts together
PLAINLY = 1e-6  # chance that any cohort of honest reports has so large a residual
MOST_LEFT_OUT = 0.5  # of the reports: beyond that it is the model that does not hold


class Impossible(NamedTuple):
    """The finding that reports have more or fewer bits than any values give.

    mean: bits of a value in a report; that of all reports, or of the cohorts named.
    least, most: what it may be.  forged: smallest part of these reports that, forged, gives it.
    cohorts: those that go beyond by themselves, empty where all reports together do.
    """

    mean: float
    least: float
    most: float
    forged: float
    cohorts: tuple[int, ...]


def impossible_counts(
    params: RapporParams, reports: Floats, counts: Floats, repetition: float
) -> Impossible | None:
    """Test whether the mean number of bits, in all reports and in each cohort, is one that
    values can give.

    Args:
        params: of the metric; with symbols nothing is tested, since every report shows one.
        reports: N_j, (m,).
        counts: c_ij, (m, k).
        repetition: rho, by which repeated permanent noise widens the variance of a sum.

    Returns:
        The finding about all reports if there is one, else about cohorts. Wrong about honest
        reports with probability `FALSE_ALARM` at most, by the normal approximation.
    """
    if params.scheme.symbols or not reports.any():
        return None
    present = np.flatnonzero(reports)
    number, noise, k = reports[present], BitNoise.of(params.mechanism), params.num_bits
    bits, limits, variances, step = _sums(params, reports, counts, repetition)
    total = number.sum()
    found = _beyond(
        bits.sum() / total, variances / total, step / total, limits, FALSE_ALARM / 2, noise, k
    )
    if found is not None:
        return found
    odd = impossible_cohorts(params, reports, counts, repetition)
    if not len(odd):
        return None
    odd = np.searchsorted(present, odd)
    size = number[odd].sum()
    mean = float(bits[odd].sum() / size)
    forged = _least_forged(mean, limits, noise, k)
    return Impossible(mean, *limits, forged, tuple(present[odd].tolist()))


def impossible_cohorts(
    params: RapporParams, reports: Floats, counts: Floats, repetition: float
) -> Indices:
    """The cohorts whose own mean cannot be; of honest reports any with `FALSE_ALARM` / 2 at most.

    Args and limits are those of `impossible_counts`.
    """
    present = np.flatnonzero(reports)
    if params.scheme.symbols or not len(present):
        return np.zeros(0, dtype=np.intp)
    bits, limits, variances, step = _sums(params, reports, counts, repetition)
    each, noise = FALSE_ALARM / 2 / len(present), BitNoise.of(params.mechanism)
    odd = [
        _beyond(total / size, variances / size, step / size, limits, each, noise, params.num_bits)
        is not None
        for total, size in zip(bits, reports[present], strict=True)
    ]
    return present[odd]


def _sums(
    params: RapporParams, reports: Floats, counts: Floats, repetition: float
) -> tuple[Floats, tuple[float, float], Floats, float]:
    """Bits of values in each cohort that reports, what a report may have, and the noise of both.

    The noise: variance of a report's sum at either limit, (2,), and what a bit of it moves it by.
    """
    present = np.flatnonzero(reports)
    number, noise, k = reports[present], BitNoise.of(params.mechanism), params.num_bits
    bits = ((counts[present] - noise.p_star * number[:, None]) / noise.gap).sum(axis=1)
    limits = (0.0 if params.scheme.own_bits else 1.0), float(params.num_hashes)
    variances = k * noise.mechanism_variance(np.array(limits) / k, repetition)
    return bits, limits, variances, repetition / abs(noise.gap)


def _beyond(
    mean: float,
    variances: Floats,
    step: float,
    limits: tuple[float, float],
    level: float,
    noise: BitNoise,
    num_bits: int,
) -> Impossible | None:
    """Whether a mean is outside its limits by more than noise, two-sided at this level.

    variances: of the mean where it is at either limit, (2,): a bit that is set has another noise
    than one that is not, so that reports of few bits may scatter much more than those of many.
    step: what one bit of a report moves it by. The third moment is at most this by the variance:
    few reports with few wrong bits scatter as a Poisson law, not as a normal one.
    """
    z = -float(ndtri(level / 2))
    reaches = z * np.sqrt(variances) + (z**2 - 1) / 6 * step  # Cornish and Fisher's first term
    if limits[0] - reaches[0] <= mean <= limits[1] + reaches[1]:
        return None
    forged = _least_forged(float(mean), limits, noise, num_bits)
    return Impossible(float(mean), *limits, forged, ())


def _least_forged(
    mean: float, limits: tuple[float, float], noise: BitNoise, num_bits: int
) -> float:
    """The part of reports that moves the mean from its limit, if each has all bits, or none."""
    ends = sorted((-num_bits * noise.p_star / noise.gap, num_bits * (1 - noise.p_star) / noise.gap))
    limit, end = (limits[0], ends[0]) if mean < limits[0] else (limits[1], ends[1])
    return min(max((mean - limit) / (end - limit), 0.0), 1.0)


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
