"""Unbiased shares of set bits from noisy counts, with their noise, and related counts.

The module also computes how often devices report, and which candidates set the same bits
(Erlingsson, Pihur, Korolova 2014, arXiv:1407.6981, section 4). rho = sum r^2 / sum r, if device i
sent r_i reports in the window; it never exceeds the largest r."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from decoder.errors import DecodeError
from decoder.model.noise import BitNoise, CohortNoise, RandomString
from decoder.numerics.bit_tensor import Positions, gather_sums
from decoder.typing import Flags, Floats
from rappor_core.aggregate import Aggregate, periods_ended
from rappor_core.calendar import PERIOD_DAYS
from rappor_core.metrics.location import Location
from rappor_core.metrics.metric import Metric


@dataclass(frozen=True)
class Observed:
    """Debiased shares (m, k), positions (M, m, h) and noise of the cohorts with reports."""

    bit_shares: Floats
    positions: Positions
    noise: CohortNoise

    @property
    def centered(self) -> Floats:
        """The bit shares minus a, the mean of a random string's bit: y - a, (m, k)."""
        return self.bit_shares - self.noise.random.mean

    @property
    def rows(self) -> int:
        """The rows' degrees of freedom: m k, or m (k - 1) if symbols have a known sum."""
        cohorts, num_bits = self.bit_shares.shape
        return int(cohorts * (num_bits - self.noise.symbols))

    def repeated(self, repetition: float) -> Observed:
        """Return the same counts with a different repetition rho >= 1 of the reports."""
        return replace(self, noise=replace(self.noise, repetition=repetition))

    def noise_of(self, shares: Floats) -> Floats:
        """Return the covariance (m, k, k) of each cohort if the candidates have `shares` (M,)."""
        return self.noise.invertible(self.positions, shares)


def observe(
    aggregate: Aggregate, positions: Positions, repeats: float = 1.0, cohorts: Flags | None = None
) -> Observed:
    """Debias the cohorts that have reports, limited to `cohorts` (m,) if given.

    `repeats` is rho. Raises DecodeError if no cohort has reports."""
    params = aggregate.params
    reports = np.array(aggregate.reports_per_cohort, dtype=np.float64)
    counts = np.array(aggregate.bit_counts, dtype=np.float64)
    present = reports > 0 if cohorts is None else (reports > 0) & cohorts
    if not present.any():
        days = f"from {aggregate.first_day} to {aggregate.last_day}"
        raise DecodeError(
            f"metric {aggregate.metric!r} has no reports "
            f"{'in this window' if aggregate.first_day is None else days}; "
            "choose a window with reports, or wait until its days are closed"
        )
    noise = BitNoise.of(params.mechanism)
    shares = debias(counts[present], reports[present], noise)
    random = RandomString(params.num_bits, params.num_hashes)
    symbols = params.scheme.symbols
    covariance = CohortNoise(noise, random, reports[present], repeats, symbols)
    return Observed(shares, positions if present.all() else positions[:, present], covariance)


def debias(bit_counts: Floats, reports_per_cohort: Floats, noise: BitNoise) -> Floats:
    """Return the unbiased shares of set bits t_ij / N_j = (c_ij / N_j - p*) / (q* - p*), (m, k).

    The counts are (m, k), the reports (m,) and positive. Raises DecodeError if q* = p*."""
    if noise.gap == 0:
        raise DecodeError("q_star = p_star: the reports contain no information (f = 1 or p = q)")
    return unbiased(bit_counts / reports_per_cohort[:, None], noise)


def unbiased(frequencies: Floats, noise: BitNoise) -> Floats:
    """Convert frequencies of reported bits to shares of set bits: (c / N - p*) / (q* - p*)."""
    return np.asarray((frequencies - noise.p_star) / noise.gap)


def repetition(aggregate: Aggregate, repeats: float | None) -> float:
    """Return rho >= 1, either as given or as the maximum that the definition allows.

    The maximum is the number of reports per period times the periods that the window overlaps, and
    at most max_reports. It is 1 if there is no definition."""
    if repeats is not None:
        return float(repeats)
    definition = aggregate.definition
    if "max_reports_per_period" not in definition:
        return 1.0
    periods = 1  # the number of periods that the window overlaps, if its days are known
    if aggregate.first_day is not None and aggregate.last_day is not None:
        days = (aggregate.last_day - aggregate.first_day).days + 1
        length = PERIOD_DAYS[str(definition.get("period", "day"))]
        periods = days if length == 1 else (days - 2) // length + 2
    bound = float(definition["max_reports_per_period"]) * periods
    return max(1.0, min(bound, float(definition.get("max_reports") or bound)))


def location_repetition(
    aggregate: Aggregate, metric: Metric, location: Location, repeats: float | None
) -> float:
    """Return rho of a location metric, as given or as the maximum (see `collected_repetition`).

    In mode `window`, a device reports once per `window` periods; with `turn = "fresh"`, once in
    each block of `window` periods that the days can overlap."""
    if repeats is not None or aggregate.first_day is None or aggregate.last_day is None:
        return repetition(aggregate, repeats)
    ends = periods_ended(metric.period, aggregate.first_day, aggregate.last_day)
    most = location.most_reports_in(ends)
    return float(max(1, min(most, metric.max_reports or most)))


def collected_repetition(aggregate: Aggregate, repeats: float | None) -> float:
    """Return rho of a metric that is reported after each period, as given or as the maximum.

    The maximum is one report for each period that ends in the window, and at most max_reports. For
    a window without days, it is the result of `repetition`."""
    if repeats is not None or aggregate.first_day is None or aggregate.last_day is None:
        return repetition(aggregate, repeats)
    unit = str(aggregate.definition.get("period", "day"))
    ends = periods_ended(unit, aggregate.first_day, aggregate.last_day)
    return float(max(1, min(ends, aggregate.definition.get("max_reports") or ends)))


def design_matrix(positions: Positions, num_bits: int) -> sparse.csc_array:
    """Build the 0/1 design matrix X (m*k, M) from the index tensor (M, m, h).

    X[j*k + b, i] = 1 if candidate i sets bit b in cohort j. The fits use the index tensor instead.
    """
    num_candidates, num_cohorts, _ = positions.shape
    offsets = (np.arange(num_cohorts, dtype=np.int32) * num_bits)[:, None]
    set_bits = positions < num_bits
    rows = (positions.astype(np.int32) + offsets)[set_bits]
    ends = np.concatenate([[0], np.cumsum(set_bits.sum(axis=(1, 2)))]).astype(np.int32)
    shape = (num_cohorts * num_bits, num_candidates)
    return sparse.csc_array((np.ones(len(rows)), rows, ends), shape=shape)


def same_positions(positions: Positions, num_bits: int) -> NDArray[np.intp]:
    """For each candidate (M,), return the first candidate that sets the same bits in every cohort.

    Candidates are first compared by the sum of codes of their bits, which is exact in a double for
    any order of the bits. Only candidates with equal sums are compared bit by bit."""
    group = np.arange(len(positions))
    largest = 2**53 // max(positions.shape[1] * positions.shape[2], 1)  # sums stay exact
    codes = np.random.default_rng(0).integers(0, largest, (positions.shape[1], num_bits))
    sums = gather_sums(positions, codes.astype(np.float64))
    ranked = np.sort(sums)
    doubtful = np.flatnonzero(np.isin(sums, ranked[1:][np.diff(ranked) == 0]))
    if len(doubtful):
        rows = np.sort(positions[doubtful], axis=2).reshape(len(doubtful), -1)
        _, first, member = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        group[doubtful] = doubtful[first[member.ravel()]]
    return group
