"""Whether cohorts are equal, reports repeated, candidates hashed at random, and counts possible.

Every honest report represents 1 to h bits of a value (0 or 1 where a value has its own bit):
so does the mean of the debiased counts of a cohort, whatever values devices hold. Forged reports do
not keep to it: one with the value's bits alone counts as (h - k p*) / (q* - p*) bits, some hundred
below zero. A cohort that fits nothing raises the noise of all, and is left out.
"""

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

SIZES_ALARM = 1e-3  # chance that cohorts of single reports look like repeated ones
AGREE = 3.0  # factor within which the sizes of cohorts and the noise tell the same repetition


def balance_p_value(reports: Floats, repetition: float) -> float:
    """P-value of equal cohorts, chi-squared; 1 for a single one. repetition: rho."""
    if len(reports) < 2:
        return 1.0
    mean = float(reports.mean())
    size = ((reports - mean) ** 2).sum() / (mean * repetition)
    return float(chdtrc(len(reports) - 1, size))


def undeclared_repetition(noise: CohortNoise, missing: float, excess: float) -> float:
    """Return the repetition that both the sizes of the cohorts and their noise indicate, or 1:
    reports of one device go to one cohort, while unlisted values leave the sizes alone. missing,
    excess: tau and kappa of a fit that took each report for another device."""
    reports = noise.reports
    if len(reports) < 2 or balance_p_value(reports, 1.0) > SIZES_ALARM:
        return 1.0
    mean = float(reports.mean())
    by_size = float(((reports - mean) ** 2).sum() / (mean * (len(reports) - 1)))
    unlisted = missing * noise.random.variance * mean / noise.typical(1.0)
    by_noise = noise.repetition_of((1 + unlisted) * excess)
    agree = 1 / AGREE < by_size / by_noise < AGREE
    return by_noise if agree else 1.0


MAX_COMPARED = 256  # candidates, drawn by a fixed seed; of shorter lists all
MAX_CHANCE_ERRORS = 6.0  # standard errors of the ratio
MAX_RATIO = 1.2


class Alike(NamedTuple):
    """The finding that candidates share bits more unevenly than random hashing makes them.

    ratio: mean squared deviation of the overlap of two candidates over that of random hashing.
    first, second: of the pair that shares most.  shared: bits of it.  expected: of a random pair.
    """

    ratio: float
    first: int
    second: int
    shared: int
    expected: float


def alike_candidates(positions: Positions, random: RandomString) -> Alike | None:
    """Test whether bits of candidates (G, m, h) are hashed at random; None if that may be.

    The overlap of two candidates is the number of bits, over all cohorts, that both set. Its mean
    squared deviation over all pairs, in units of its variance under random hashing, is 1 with a
    standard error of sqrt((2 + 1 / mean) / pairs).
    """
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


FALSE_ALARM = 1e-3  # of a decoding of honest reports, at most: half for all cohorts together
PLAINLY = 1e-6  # chance that any cohort of honest reports has so large a residual
ALARM = 1e-3  # chance of a false alarm: about any cohort, their sizes, the sum of shares
MAX_LEFT_OUT = 0.5  # of the reports: beyond that it is the model that does not hold


class Impossible(NamedTuple):
    """The finding that reports have more or fewer bits than any values give: the mean of all
    reports, or of the cohorts named, what it may be, and the least part of them that is forged."""

    mean: float
    least: float
    most: float
    forged: float
    cohorts: tuple[int, ...]


def impossible_counts(
    params: RapporParams, reports: Floats, counts: Floats, repetition: float
) -> Impossible | None:
    """Test whether the mean number of bits, of all reports and else of each cohort, is one that
    values can give: wrong about honest reports with probability `FALSE_ALARM` at most.

    Args:
        params: of the metric; with symbols nothing is tested, since every report shows one.
        reports: N_j, (m,).
        counts: c_ij, (m, k).
        repetition: rho, by which repeated permanent noise widens the variance of a sum.
    """
    bits = _Bits.of(params, reports, counts, repetition)
    every = np.arange(len(bits.sums))
    if bits.beyond(bits.sums.sum(), bits.reports.sum(), FALSE_ALARM / 2):
        return bits.finding(every, ())
    odd = bits.odd
    return bits.finding(odd, tuple(bits.cohorts[odd].tolist())) if len(odd) else None


class _Bits(NamedTuple):
    """Bits of values in the cohorts that report, and what they may be; none with symbols.

    limits: of the bits of a report.  variances: of a report's sum at either limit, (2,), since a
    set bit has another noise.  step: what one bit moves a sum by.  ends: of a forged report's sum.
    """

    cohorts: Indices
    reports: Floats
    sums: Floats
    limits: tuple[float, float]
    variances: Floats
    step: float
    ends: tuple[float, float]

    @classmethod
    def of(cls, params: RapporParams, reports: Floats, counts: Floats, repetition: float) -> _Bits:
        """Sum the debiased counts. Arguments as of `impossible_counts`."""
        present = np.flatnonzero(reports > (np.inf if params.scheme.symbols else 0))
        number, noise, k = reports[present], BitNoise.of(params.mechanism), params.num_bits
        sums = ((counts[present] - noise.p_star * number[:, None]) / noise.gap).sum(axis=1)
        limits = (0.0 if params.scheme.own_bits else 1.0), float(params.num_hashes)
        variances = k * noise.mechanism_variance(np.array(limits) / k, repetition)
        low, high = sorted((-k * noise.p_star / noise.gap, k * (1 - noise.p_star) / noise.gap))
        step = repetition / abs(noise.gap)
        return cls(present, number, sums, limits, variances, step, (low, high))

    def beyond(self, total: float, reports: float, level: float) -> bool:
        """Return whether a mean is outside its limits by more than noise, two-sided at this level.
        Few reports with few wrong bits scatter as a Poisson law, not as a normal one."""
        if not reports:
            return False
        mean, z = total / reports, -float(ndtri(level / 2))
        reaches = z * np.sqrt(self.variances / reports)
        reaches = reaches + (z**2 - 1) / 6 * (self.step / reports)  # Cornish and Fisher's first
        return not self.limits[0] - reaches[0] <= mean <= self.limits[1] + reaches[1]

    @property
    def odd(self) -> Indices:
        """Places of cohorts that are beyond alone; any honest ones by `FALSE_ALARM` / 2."""
        each = FALSE_ALARM / 2 / max(len(self.sums), 1)
        pairs = zip(self.sums, self.reports, strict=True)
        return np.flatnonzero([self.beyond(total, size, each) for total, size in pairs])

    def finding(self, some: Indices, named: tuple[int, ...]) -> Impossible:
        """What is said of some cohorts: forged reports move a mean most with all bits, or none."""
        mean = float(self.sums[some].sum() / self.reports[some].sum())
        side = 0 if mean < self.limits[0] else 1
        limit, end = self.limits[side], self.ends[side]
        forged = min(max((mean - limit) / (end - limit), 0.0), 1.0)
        return Impossible(mean, *self.limits, forged, named)


def forged_cohorts(
    params: RapporParams, reports: Floats, counts: Floats, repetition: float, scores: Floats
) -> Indices:
    """Find the cohorts whose counts no values give (`impossible_counts`), or whose residuals are
    far beyond noise. scores: residuals as normal deviates, (m,); NaN without reports."""
    bits = _Bits.of(params, reports, counts, repetition)
    return np.union1d(odd_cohorts(scores, PLAINLY), bits.cohorts[bits.odd])


def odd_cohorts(scores: Floats, chance: float = ALARM) -> Indices:
    """Find the cohorts whose residuals, normal deviates (m,) or NaN, are beyond noise. chance: that
    any cohort of honest reports is, at most."""
    limit = -float(ndtri(chance / max(len(scores), 1)))
    return np.flatnonzero(np.nan_to_num(scores) > limit)


def may_be_left_out(odd: Indices, reports: Floats, total: float) -> bool:
    """Whether the cohorts other than `odd` hold at least half of `total` reports. reports: (m,)."""
    return float(reports.sum() - reports[odd].sum()) >= (1 - MAX_LEFT_OUT) * total
