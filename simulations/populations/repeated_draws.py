"""Draw aggregates of devices that send many reports, exactly, without simulating devices.

A device draws its permanent bits once for each distinct set of Bloom bits, and repeats them. Given
how many reports of a cohort carry a permanent 1, the instantaneous bits are two binomials.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rappor_core.aggregate import Aggregate
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from simulations.populations.draws import aggregate_of_metric, plain_aggregate, rounds_of

Counts = NDArray[np.int64]
_CHUNK = 20_000  # rows whose permanent bits are drawn at once


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
    ones = np.zeros((m, k))
    for start in range(0, len(own), _CHUNK):
        part = slice(start, start + _CHUNK)
        permanent = permanent_bits(own[part], params, rng)
        for cohort in np.unique(cohorts[part]):
            mine = cohorts[part] == cohort
            ones[cohort] += reports[part][mine] @ permanent[mine]
    total = np.bincount(cohorts, weights=reports, minlength=m).astype(np.int64)
    _, _, show, hide = rounds_of(params)
    kept = ones.astype(np.int64)
    counts = rng.binomial(kept, show) + rng.binomial(total[:, None] - kept, hide)
    if metric is None:
        return plain_aggregate("simulated", params, total, counts)
    return aggregate_of_metric(metric, total, counts, None, None)


def _like_bits(device: Counts, own: Counts, reports: Counts) -> tuple[Counts, NDArray[np.float64]]:
    """First row of each permanent response (a device, a set of bits), and its reports."""
    order = np.lexsort((*own.T, device))
    ranked = np.column_stack([device, own])[order]
    new = np.append(True, (ranked[1:] != ranked[:-1]).any(axis=1))
    total = np.bincount(np.cumsum(new) - 1, weights=reports[order].astype(np.float64))
    return order[new], np.asarray(total, dtype=np.float64)


def permanent_bits(
    own: Counts, params: RapporParams, rng: np.random.Generator
) -> NDArray[np.float32]:
    """B' of filters with the bits `own` (n, h) set: (n, k) of 0 and 1."""
    keep, lie, _, _ = rounds_of(params)
    chance = np.full((len(own), params.num_bits + 1), lie, dtype=np.float32)  # k: a repeated hash
    np.put_along_axis(chance, own, keep, axis=1)
    chance = chance[:, :-1]  # multiples of 2^-16, exact; a draw has 24 bits
    return (rng.random(chance.shape, dtype=np.float32) < chance).astype(np.float32)
