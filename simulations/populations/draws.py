"""Aggregates drawn exactly from their distribution, without simulating devices.

With one report per device, the counts are binomial given how many devices hold a bit: a million
reports cost the same as ten. The device's code does not run here, but in the end-to-end tests. A
device draws its permanent bits once for each distinct set of Bloom bits, and repeats them. Pairs of
a device and such a set with the same number of reports are drawn together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoder.typing import Floats
from rappor_core.aggregate import Aggregate
from rappor_core.hashing import bloom_positions, normalize
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams

Counts = NDArray[np.int64]


def draw_aggregate(
    values: list[str],
    shares: Floats,
    num_reports: int,
    params: RapporParams,
    rng: np.random.Generator,
    metric: str = "simulated",
    reports_each: int = 1,
) -> tuple[Aggregate, Counts]:
    """Draw an aggregate: the cohorts, the held values, and the noise of every bit.

    Each device sends `reports_each` reports for its single value, with the same permanent bits.
    Symbols allow one report per device.

    Args:
        values: The values that devices hold.
        shares: The probability of each value, shape (n,).
        num_reports: The number of devices; also of reports if `reports_each` is 1.

    Returns:
        The aggregate, and the true number of holders of each value, (n,).
    """
    cohorts = draw_cohorts(num_reports, params.num_cohorts, rng)
    holders = rng.multinomial(cohorts, shares)
    truth = np.zeros((params.num_cohorts, params.num_bits), dtype=np.int64)
    for cohort, row in enumerate(holders):
        for value in np.flatnonzero(row):
            truth[cohort, bits_of_value(values[value], int(value), cohort, params)] += row[value]
    counts = noisy_counts(truth, cohorts, params, rng, reports_each)
    return plain_aggregate(metric, params, cohorts * reports_each, counts), holders.sum(axis=0)


def draw_listed(
    positions: NDArray[np.integer[Any]],
    shares: Floats,
    num_reports: int,
    params: RapporParams,
    rng: np.random.Generator,
    reports_each: int = 1,
) -> tuple[Aggregate, Counts]:
    """Draw as `draw_aggregate` does, for thousands of values with given positions.

    `positions` are those of every value in every cohort, (n, m, h); a repeated position is k."""
    cohorts = draw_cohorts(num_reports, params.num_cohorts, rng)
    holders = rng.multinomial(cohorts, shares)
    truth = bits_set(holders, positions, params.num_bits)
    counts = noisy_counts(truth, cohorts, params, rng, reports_each)
    return plain_aggregate("simulated", params, cohorts * reports_each, counts), holders.sum(axis=0)


def bits_set(holders: Counts, positions: NDArray[np.integer[Any]], num_bits: int) -> Counts:
    """Count, for each cohort and bit, the reports with the true bit set, (m, k); exact below 2^53.

    Args:
        holders: The holders of each value in each cohort, (m, n).
        positions: The bits of each value in each cohort, (n, m, h), with k for repeated hashes.
        num_bits: The number of bits k.
    """
    counts = np.zeros((len(holders), num_bits), dtype=np.int64)
    for cohort, row in enumerate(holders):
        each = np.repeat(row, positions.shape[2]).astype(float)
        bits = np.bincount(positions[:, cohort].ravel(), weights=each, minlength=num_bits + 1)
        counts[cohort] = bits[:num_bits].astype(np.int64)
    return counts


def draw_cohorts(num_devices: int, num_cohorts: int, rng: np.random.Generator) -> Counts:
    """Draw the number of devices in each cohort, (m,)."""
    return np.asarray(rng.multinomial(num_devices, np.full(num_cohorts, 1 / num_cohorts)))


def aggregate_of_metric(
    metric: Metric, reports: Counts, counts: Counts, first: date | None, last: date | None
) -> Aggregate:
    """Make the aggregate that a collector would serve for a metric, from `first` to `last`.

    `reports` are (m,), `counts` (m, k)."""
    plain = plain_aggregate(metric.name, metric.params, reports, counts)
    return declared_aggregate(plain, metric, first, last)


def declared_aggregate(
    plain: Aggregate, metric: Metric, first: date | None, last: date | None
) -> Aggregate:
    """Attach a declared metric and the first and last day to plain counts."""
    return replace(
        plain, metric=metric.name, params_id=metric.params_id, definition=metric.to_dict(),
        first_day=first, last_day=last,
    )  # fmt: skip


def plain_aggregate(
    metric: str, params: RapporParams, reports: Counts, counts: Counts
) -> Aggregate:
    """Make an aggregate of an undeclared metric from reports (m,) and counts (m, k)."""
    bit_counts = tuple(map(tuple, counts.tolist()))
    return Aggregate(metric, params, tuple(reports.tolist()), bit_counts)


def noisy_counts(
    truth: Counts,
    cohorts: Counts,
    params: RapporParams,
    rng: np.random.Generator,
    reports_each: int = 1,
) -> Counts:
    """Draw the reported counts (m, k) from the true bits or symbols, `truth` (m, k)."""
    others = cohorts[:, None] - truth
    if reports_each > 1:
        if params.scheme.symbols:
            raise ValueError("repeated reports of symbols are not drawn")
        p1, q1, p2, q2 = params.mechanism.rates
        set_bits = rng.binomial(truth, p1) + rng.binomial(others, q1)
        clear = cohorts[:, None] - set_bits
        counts = rng.binomial(set_bits * reports_each, p2) + rng.binomial(clear * reports_each, q2)
        return np.asarray(counts)
    if not params.scheme.symbols:
        return np.asarray(rng.binomial(truth, params.q_star) + rng.binomial(others, params.p_star))
    reported = np.zeros_like(truth)
    for symbol in range(params.num_bits):
        chances = np.full(params.num_bits, params.p_star)
        chances[symbol] = params.q_star
        reported += rng.multinomial(truth[:, symbol], chances / chances.sum())
    return reported


def bits_of_value(value: str, index: int, cohort: int, params: RapporParams) -> list[int]:
    """Return the bits that a value sets; `index` is its place in the list of values."""
    if not params.scheme.hashed:
        return list(params.scheme.index_positions(params, index, cohort))
    return sorted(set(bloom_positions(normalize(value), cohort, params)))


@dataclass(frozen=True)
class Holders:
    """The numbers of reports of n pairs of a device and a value; private on real devices."""

    devices: int  # Number of devices
    device: Counts  # The device of each pair, (n,)
    value: Counts  # The index of its value, (n,)
    reports: Counts  # Its number of reports, (n,)

    @classmethod
    def of(cls, devices: int, device: Counts, value: Counts, reports: Counts) -> Holders:
        """Add up entries of the same device and value."""
        size = int(value.max(initial=0)) + 1
        pairs, row = np.unique(device * size + value, return_inverse=True)
        total = np.bincount(row, weights=reports, minlength=len(pairs)).astype(np.int64)
        return cls(devices, pairs // size, pairs % size, total)

    @property
    def num_reports(self) -> int:
        """Return the total number of reports."""
        return int(self.reports.sum())

    @property
    def repetition(self) -> float:
        """Return the repetition rho = sum r^2 / sum r over the pairs of device and value."""
        return float((self.reports**2).sum() / self.reports.sum())

    def shares(self, num_values: int) -> NDArray[np.float64]:
        """Return the shares of the values among the reports, (num_values,)."""
        return np.bincount(self.value, self.reports, num_values) / self.num_reports


def draw_repeated(
    holders: Holders,
    positions: NDArray[np.integer[Any]],
    params: RapporParams,
    rng: np.random.Generator,
    metric: Metric | None = None,
) -> Aggregate:
    """Draw cohorts and both rounds of repeated reports; return the collector's aggregate.

    Args:
        holders: The reports of each device.
        positions: The bits of each value in each cohort, (V, m, h), with k for repeated hashes.
        params: The parameters of the metric, which must use Bloom filters.
        rng: The source of the draw.
        metric: The metric whose definition is attached to the counts, or None.
    """
    m, k = params.num_cohorts, params.num_bits
    cohorts = rng.integers(m, size=holders.devices)[holders.device]
    bits = np.sort(positions[holders.value, cohorts].astype(np.int64), axis=1)
    first, reports = _like_bits(holders.device, bits, holders.reports)
    bits, cohorts = bits[first], cohorts[first]
    total, counts = np.zeros(m, dtype=np.int64), np.zeros((m, k), dtype=np.int64)
    for each in np.unique(reports).tolist():
        mine = reports == each
        truth = np.zeros((m, k + 1), dtype=np.int64)  # The last column: repeated hashes
        np.add.at(truth, (cohorts[mine, None], bits[mine]), 1)
        sending = np.bincount(cohorts[mine], minlength=m)
        counts += noisy_counts(truth[:, :k], sending, params, rng, each)
        total += each * sending
    if metric is None:
        return plain_aggregate("simulated", params, total, counts)
    return aggregate_of_metric(metric, total, counts, None, None)


def _like_bits(device: Counts, bits: Counts, reports: Counts) -> tuple[Counts, Counts]:
    """Return the first row and report count of each permanent response (a device and its bits)."""
    order = np.lexsort((*bits.T, device))
    ranked = np.column_stack([device, bits])[order]
    new = np.append(True, (ranked[1:] != ranked[:-1]).any(axis=1))
    total = np.bincount(np.cumsum(new) - 1, weights=reports[order]).astype(np.int64)
    return order[new], total
