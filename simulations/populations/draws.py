"""Draw aggregates exactly from their distribution, without simulating devices.

For one report a device the counts are binomial given how many devices hold a bit: a million
reports cost as much as ten. The device's code is not run; the end-to-end tests do that.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rappor_core.aggregate import Aggregate
from rappor_core.hashing import bloom_positions, normalise
from rappor_core.mechanism import PROBABILITY_SCALE
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams

Floats = NDArray[np.float64]
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
    """Draw who is in which cohort, who holds what, and the noise of every bit.

    values, shares: what is held, and with which probability, (n,) each.
    num_reports: of as many devices, if each sends one; devices, if each sends `reports_each`
    reports of its one value, with the same permanent bits. Symbols take one report a device.
    Returns the aggregate and the true number of holders of each value, (n,).
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
    """Draw an aggregate as `draw_aggregate` does, for thousands of values whose positions are
    given.

    positions: of every value in every cohort, (n, m, h), k where a hash repeats another.
    """
    m, k = params.num_cohorts, params.num_bits
    cohorts = draw_cohorts(num_reports, m, rng)
    holders = rng.multinomial(cohorts, shares)
    truth = np.zeros((m, k), dtype=np.int64)
    for cohort, row in enumerate(holders):
        each = np.repeat(row, positions.shape[2])
        bits = np.bincount(positions[:, cohort].ravel(), weights=each, minlength=k + 1)
        truth[cohort] = bits[:k].astype(np.int64)
    counts = noisy_counts(truth, cohorts, params, rng, reports_each)
    return plain_aggregate("simulated", params, cohorts * reports_each, counts), holders.sum(axis=0)


def draw_cohorts(num_devices: int, num_cohorts: int, rng: np.random.Generator) -> Counts:
    """How many of the devices are in each cohort, (m,)."""
    return np.asarray(rng.multinomial(num_devices, np.full(num_cohorts, 1 / num_cohorts)))


def aggregate_of_metric(
    metric: Metric, reports: Counts, counts: Counts, first: date | None, last: date | None
) -> Aggregate:
    """Make the aggregate that a collector would serve of a metric.

    reports: (m,).  counts: (m, k).  first, last: days.
    """
    plain = plain_aggregate(metric.name, metric.params, reports, counts)
    return replace(
        plain,
        params_id=metric.params_id,
        definition=metric.to_dict(),
        first_day=first,
        last_day=last,
    )


def plain_aggregate(
    metric: str, params: RapporParams, reports: Counts, counts: Counts
) -> Aggregate:
    """Counts of a metric that nobody declared. reports: (m,). counts: (m, k)."""
    return Aggregate(
        metric=metric,
        params=params,
        reports_per_cohort=tuple(reports.tolist()),
        bit_counts=tuple(map(tuple, counts.tolist())),
    )


def noisy_counts(
    truth: Counts,
    cohorts: Counts,
    params: RapporParams,
    rng: np.random.Generator,
    reports_each: int = 1,
) -> Counts:
    """Draw the reported counts (m, k) of the true bits, or true symbols, `truth` (m, k)."""
    others = cohorts[:, None] - truth
    if reports_each > 1:
        if params.scheme.symbols:
            raise ValueError("repeated reports of symbols are not drawn")
        rounds = [value / PROBABILITY_SCALE for value in _rounds(params)]
        kept = rng.binomial(truth, rounds[0]) + rng.binomial(others, rounds[1])
        clear = cohorts[:, None] - kept
        return np.asarray(
            rng.binomial(kept * reports_each, rounds[2])
            + rng.binomial(clear * reports_each, rounds[3])
        )
    if not params.scheme.symbols:
        return np.asarray(rng.binomial(truth, params.q_star) + rng.binomial(others, params.p_star))
    reported = np.zeros_like(truth)
    for symbol in range(params.num_bits):
        chances = np.full(params.num_bits, params.p_star)
        chances[symbol] = params.q_star
        reported += rng.multinomial(truth[:, symbol], chances / chances.sum())
    return reported


def _rounds(params: RapporParams) -> tuple[int, int, int, int]:
    mechanism = params.mechanism
    return mechanism.p1, mechanism.q1, mechanism.p2, mechanism.q2


def bits_of_value(value: str, index: int, cohort: int, params: RapporParams) -> list[int]:
    """The bits that a value sets; listed values are numbered as in the list of values."""
    if not params.scheme.hashed:
        return list(params.scheme.index_positions(params, index, cohort))
    return sorted(set(bloom_positions(normalise(value), cohort, params)))
