"""Aggregates drawn exactly from their distribution, without a fleet.

For one report a device the counts are binomial given how many devices hold a bit: a million
reports cost as much as ten. The device's code is not run; the end-to-end tests do that.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rappor_core.aggregate import Aggregate
from rappor_core.hashing import bloom_positions, normalise
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
) -> tuple[Aggregate, Counts]:
    """Draw who is in which cohort, who holds what, and the noise of every bit.

    values, shares: what is held, and with which probability, (n,) each.
    Returns the aggregate and the true number of holders of each value, (n,).
    """
    cohorts = rng.multinomial(num_reports, np.full(params.num_cohorts, 1 / params.num_cohorts))
    holders = rng.multinomial(cohorts, shares)
    truth = np.zeros((params.num_cohorts, params.num_bits), dtype=np.int64)
    for cohort, row in enumerate(holders):
        for value in np.flatnonzero(row):
            truth[cohort, _bits(values[value], int(value), cohort, params)] += row[value]
    counts = _noisy(truth, cohorts, params, rng)
    aggregate = Aggregate(
        metric=metric,
        params=params,
        reports_per_cohort=tuple(cohorts.tolist()),
        bit_counts=tuple(map(tuple, counts.tolist())),
    )
    return aggregate, holders.sum(axis=0)


def _noisy(
    truth: Counts, cohorts: Counts, params: RapporParams, rng: np.random.Generator
) -> Counts:
    """What is reported of `truth` (m, k) true bits, or true symbols, of one report a device."""
    if not params.scheme.symbols:
        others = cohorts[:, None] - truth
        return np.asarray(rng.binomial(truth, params.q_star) + rng.binomial(others, params.p_star))
    reported = np.zeros_like(truth)
    for symbol in range(params.num_bits):
        chances = np.full(params.num_bits, params.p_star)
        chances[symbol] = params.q_star
        reported += rng.multinomial(truth[:, symbol], chances / chances.sum())
    return reported


def _bits(value: str, index: int, cohort: int, params: RapporParams) -> list[int]:
    """The bits that a value sets; listed values are numbered as in the list of values."""
    if not params.scheme.hashed:
        return list(params.scheme.index_positions(params, index, cohort))
    return sorted(set(bloom_positions(normalise(value), cohort, params)))
