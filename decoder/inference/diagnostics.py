"""Checks that cohorts are balanced, reports not repeated, hashes random, and counts possible.

Every honest report represents 1 to h bits of a value (0 or 1 if values have separate bits), so the
mean of a cohort's debiased counts does, too, for any distribution of values. Fabricated reports may
not: one with only the value's bits counts as (h - k p*) / (q* - p*) bits, a few hundred below zero.
A cohort that fits no values raises the noise of all cohorts, and is excluded."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, ndtri

from decoder.model.counts import design_matrix
from decoder.model.noise import BitNoise, CohortNoise, RandomString
from decoder.numerics.bit_tensor import Positions
from decoder.typing import Floats, Indices
from rappor_core.params import RapporParams

SIZES_ALARM = 1e-3  # the probability that cohorts without repeated reports look repeated
AGREE = 3.0  # the repetitions estimated from cohort sizes and noise agree within this factor


def balance_p_value(reports: Floats, repetition: float) -> float:
    """Return the chi-squared p-value for equal cohort sizes, given rho; 1 for one cohort."""
    if len(reports) < 2:
        return 1.0
    mean = float(reports.mean())
    size = ((reports - mean) ** 2).sum() / (mean * repetition)
    return float(chdtrc(len(reports) - 1, size))


def undeclared_repetition(noise: CohortNoise, missing: float, excess: float) -> float:
    """Return the repetition that both the sizes and the noise of the cohorts indicate, or 1.

    Reports of one device go to one cohort, while unlisted values do not affect the sizes.

    Args:
        noise: The noise of the cohorts.
        missing: tau of a fit that counted each report as a separate device.
        excess: kappa of that fit.
    """
    reports = noise.reports
    if len(reports) < 2 or balance_p_value(reports, 1.0) > SIZES_ALARM:
        return 1.0
    mean = float(reports.mean())
    by_size = float(((reports - mean) ** 2).sum() / (mean * (len(reports) - 1)))
    unlisted = missing * noise.random.variance * mean / noise.typical(1.0)
    by_noise = noise.repetition_of((1 + unlisted) * excess)
    agree = 1 / AGREE < by_size / by_noise < AGREE
    return by_noise if agree else 1.0


MAX_COMPARED = 256  # the maximum number of candidates; longer lists are sampled with a fixed seed
MAX_CHANCE_ERRORS = 6.0  # standard errors of the ratio that chance can explain
MAX_RATIO = 1.2


class Alike(NamedTuple):
    """The finding that candidates share bits more unevenly than random hashing explains."""

    ratio: float  # Mean squared deviation of two candidates' overlap, relative to random hashing
    first: int  # First candidate of the pair that shares the most bits
    second: int
    shared: int  # The number of bits that the pair shares
    expected: float  # The number that a random pair shares


def alike_candidates(positions: Positions, random: RandomString) -> Alike | None:
    """Test whether bits of candidates (G, m, h) are hashed at random; return None if they may be.

    The overlap of two candidates is the number of bits, over all cohorts, that both set. Its mean
    squared deviation over all pairs, in units of its variance under random hashing, is 1 with a
    standard error of sqrt((2 + 1 / mean) / pairs)."""
    size = len(positions)
    chosen = np.arange(size)
    if size > MAX_COMPARED:
        chosen = np.random.default_rng(0).choice(size, MAX_COMPARED, replace=False)
    first, second = np.triu_indices(len(chosen), 1)
    if not len(first):
        return None
    cohorts, k = positions.shape[1], random.num_bits
    some = (design_matrix(positions[chosen], k) > 0).astype(np.float64)
    shared = (some.T @ some).toarray()[first, second]
    expected = cohorts * k * random.mean**2
    both = random.covariance_matrix + random.mean**2
    variance = cohorts * float((both**2).sum() - k**2 * random.mean**4)
    ratio = float(((shared - expected) ** 2).mean()) / variance
    error = math.sqrt((2 + 1 / expected) / len(shared))
    if ratio <= MAX_RATIO + MAX_CHANCE_ERRORS * error:
        return None
    most = int(np.argmax(shared))
    earlier, later = sorted((int(chosen[first[most]]), int(chosen[second[most]])))
    return Alike(ratio, earlier, later, int(shared[most]), expected)


FALSE_ALARM = 1e-3  # maximum chance per decoding of honest reports; half for the sum of cohorts
PLAINLY = 1e-6  # the probability that any cohort of honest reports has so large a residual
ALARM = 1e-3  # the probability of a false alarm about any cohort, the sizes, or the sum of shares
MAX_LEFT_OUT = 0.5  # the maximum fraction of reports, above which the model itself is wrong


class Impossible(NamedTuple):
    """The finding that reports have more or fewer bits than any values explain."""

    mean: float  # Bits per report, of all reports or of the named cohorts
    least: float  # The minimum mean of honest reports
    most: float  # The maximum mean of honest reports
    forged: float  # The minimum fraction of these reports that is fabricated
    cohorts: tuple[int, ...]  # The cohorts concerned; empty for all reports


def impossible_counts(
    params: RapporParams, reports: Floats, counts: Floats, repetition: float
) -> Impossible | None:
    """Test whether the mean number of bits is possible, over all reports and in each cohort.

    Honest reports fail with probability `FALSE_ALARM` at most.

    Args:
        params: The metric's parameters. Symbols are not tested, since every report has exactly one.
        reports: The number of reports N_j, (m,).
        counts: The bit counts c_ij, (m, k).
        repetition: rho, by which repeated permanent noise raises the variance of a sum.
    """
    bits = _Bits.of(params, reports, counts, repetition)
    every = np.arange(len(bits.sums))
    if bits.beyond(bits.sums.sum(), bits.reports.sum(), FALSE_ALARM / 2):
        return bits.finding(every, ())
    odd = bits.odd
    return bits.finding(odd, tuple(bits.cohorts[odd].tolist())) if len(odd) else None


class _Bits(NamedTuple):
    """Sums of the debiased bits of the cohorts with reports, and their limits.

    There are no entries for a metric with symbols."""

    cohorts: Indices
    reports: Floats
    sums: Floats
    limits: tuple[float, float]  # The minimum and maximum bits of an honest report
    variances: Floats  # Of a report's sum at either limit, (2,); set bits have different noise
    step: float  # The change of a sum by one bit
    ends: tuple[float, float]  # The minimum and maximum of a fabricated report's sum

    @classmethod
    def of(cls, params: RapporParams, reports: Floats, counts: Floats, repetition: float) -> _Bits:
        present = np.flatnonzero(reports > (np.inf if params.scheme.symbols else 0))
        number, noise, k = reports[present], BitNoise.of(params.mechanism), params.num_bits
        sums = ((counts[present] - noise.p_star * number[:, None]) / noise.gap).sum(axis=1)
        limits = (0.0 if params.scheme.own_bits else 1.0), float(params.num_hashes)
        variances = k * noise.mechanism_variance(np.array(limits) / k, repetition)
        low, high = sorted((-k * noise.p_star / noise.gap, k * (1 - noise.p_star) / noise.gap))
        step = repetition / abs(noise.gap)
        return cls(present, number, sums, limits, variances, step, (low, high))

    def beyond(self, total: float, reports: float, level: float) -> bool:
        """Return whether a mean exceeds its limits by more than noise, two-sided at this level.

        Counts from few reports with few wrong bits are Poisson rather than normal."""
        if not reports:
            return False
        mean, z = total / reports, -float(ndtri(level / 2))
        reaches = z * np.sqrt(self.variances / reports)
        reaches = reaches + (z**2 - 1) / 6 * (self.step / reports)  # the first Cornish-Fisher term
        return not self.limits[0] - reaches[0] <= mean <= self.limits[1] + reaches[1]

    @property
    def odd(self) -> Indices:
        """The cohorts outside the limits; P(any honest cohort is outside) = `FALSE_ALARM` / 2."""
        each = FALSE_ALARM / 2 / max(len(self.sums), 1)
        pairs = zip(self.sums, self.reports, strict=True)
        return np.flatnonzero([self.beyond(total, size, each) for total, size in pairs])

    def finding(self, some: Indices, named: tuple[int, ...]) -> Impossible:
        """Return the finding; fabricated reports move a mean most with all bits set, or no bit."""
        mean = float(self.sums[some].sum() / self.reports[some].sum())
        side = 0 if mean < self.limits[0] else 1
        limit, end = self.limits[side], self.ends[side]
        forged = min(max((mean - limit) / (end - limit), 0.0), 1.0)
        return Impossible(mean, *self.limits, forged, named)


def forged_cohorts(
    params: RapporParams, reports: Floats, counts: Floats, repetition: float, scores: Floats
) -> Indices:
    """Find cohorts with impossible counts (`impossible_counts`) or excessive residuals.

    `scores` are the residuals as normal deviates, (m,); NaN without reports."""
    bits = _Bits.of(params, reports, counts, repetition)
    return np.union1d(odd_cohorts(scores, PLAINLY), bits.cohorts[bits.odd])


def odd_cohorts(scores: Floats, chance: float = ALARM) -> Indices:
    """Return the cohorts whose residuals, as normal deviates `scores` (m,), exceed the noise.

    `chance` bounds the probability that any cohort of honest reports is reported."""
    limit = -float(ndtri(chance / max(len(scores), 1)))
    return np.flatnonzero(np.nan_to_num(scores) > limit)


def may_be_left_out(odd: Indices, reports: Floats, total: float) -> bool:
    """Return whether the cohorts other than `odd` have at least half of `total` reports."""
    return float(reports.sum() - reports[odd].sum()) >= (1 - MAX_LEFT_OUT) * total
