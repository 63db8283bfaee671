"""Draw aggregates of devices that send many reports, exactly, without simulating devices.

A device draws its permanent bits once for each distinct set of Bloom bits, and repeats them: pairs
of a device and such a set that send equally many reports are drawn together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rappor_core.aggregate import Aggregate
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from simulations.populations.draws import aggregate_of_metric, noisy_counts, plain_aggregate

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Holders:
    """Number of reports of each device about each of its values: a row for each pair of device
    and value.

    devices: their number.  device, value, reports: (n,), indices and counts; private on devices.
    """

    devices: int
    device: Counts
    value: Counts
    reports: Counts

    @classmethod
    def of(cls, devices: int, device: Counts, value: Counts, reports: Counts) -> Holders:
        """Add up rows of the same device and value."""
        size = int(value.max(initial=0)) + 1
        known, row = np.unique(device * size + value, return_inverse=True)
        total = np.bincount(row, weights=reports, minlength=len(known)).astype(np.int64)
        return cls(devices, known // size, known % size, total)

    @property
    def num_reports(self) -> int:
        """Number of all reports."""
        return int(self.reports.sum())

    @property
    def repetition(self) -> float:
        """The repetition rho = sum r^2 / sum r over the pairs of device and value."""
        return float((self.reports**2).sum() / self.reports.sum())

    def shares(self, num_values: int) -> NDArray[np.float64]:
        """Shares of the values among the reports, (num_values,)."""
        return np.bincount(self.value, self.reports, num_values) / self.num_reports


def draw_repeated(
    holders: Holders,
    positions: NDArray[np.integer[Any]],
    params: RapporParams,
    rng: np.random.Generator,
    metric: Metric | None = None,
) -> Aggregate:
    """Draw cohorts, permanent bits and fresh bits of repeated reports; return the collector's
    aggregate.

    Args:
        holders: who sends what.
        positions: of every value in every cohort, (V, m, h), k where a hash repeats another.
        params: of a Bloom filter.
        rng: of the draw.
        metric: whose definition goes with the counts; None: none does.
    """
    m, k = params.num_cohorts, params.num_bits
    cohorts = rng.integers(m, size=holders.devices)[holders.device]
    own = np.sort(positions[holders.value, cohorts].astype(np.int64), axis=1)
    first, reports = _like_bits(holders.device, own, holders.reports)
    own, cohorts = own[first], cohorts[first]
    total, counts = np.zeros(m, dtype=np.int64), np.zeros((m, k), dtype=np.int64)
    for each in np.unique(reports).tolist():
        mine = reports == each
        truth = np.zeros((m, k + 1), dtype=np.int64)  # the last: hashes that repeat another
        np.add.at(truth, (cohorts[mine, None], own[mine]), 1)
        sending = np.bincount(cohorts[mine], minlength=m)
        counts += noisy_counts(truth[:, :k], sending, params, rng, each)
        total += each * sending
    if metric is None:
        return plain_aggregate("simulated", params, total, counts)
    return aggregate_of_metric(metric, total, counts, None, None)


def _like_bits(device: Counts, own: Counts, reports: Counts) -> tuple[Counts, Counts]:
    """First row of each permanent response (a device, a set of bits), and its reports."""
    order = np.lexsort((*own.T, device))
    ranked = np.column_stack([device, own])[order]
    new = np.append(True, (ranked[1:] != ranked[:-1]).any(axis=1))
    total = np.bincount(np.cumsum(new) - 1, weights=reports[order]).astype(np.int64)
    return order[new], total
