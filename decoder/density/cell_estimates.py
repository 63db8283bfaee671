"""Estimates of each cell of a map by itself, from its regression.

Of each: share, interval, and whether it differs from zero. The intervals are those
of the regression. Where its numbers are few, and fewer than the cells, several lists of shares
explain the data about equally well and a single fit is one of them: a warning says so. Where the
cohorts do not even distinguish a few heavy cells from others, an interval begins at 0 and ends at
what the bits of the cell allow.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from decoder.candidates.lists import Candidates
from decoder.model.counts import observe
from decoder.results.selective_intervals import LEAST
from decoder.results.tables import Decoding
from decoder.typing import Flags, Floats
from rappor_core.aggregate import Aggregate
from rappor_core.params import RapporParams

HEAVY = 3  # cells that a map may consist of, which cohorts must tell from all others
MAX_NUMBERS = 192  # that a map is read from; with more, one fit is enough (docs/method.md)


class CellEstimates(NamedTuple):
    """Estimates of each cell by itself, arrays of shape (n,).

    estimate, std_error: unbiased.  low, high: interval, in [0, 1].  detected: tested to be above
    zero.  warnings: about all of them.
    """

    estimate: Floats
    std_error: Floats
    low: Floats
    high: Floats
    detected: Flags
    warnings: tuple[str, ...]


def cell_estimates(
    aggregate: Aggregate, candidates: Candidates, decoding: Decoding
) -> CellEstimates:
    """Estimates and intervals of the cells of one level from its decoding.

    The interval of a detected cell allows for its having been picked out, excludes 0 and holds the
    estimate: one that begins at LEAST says of its lower end no more than the test does.
    """
    table = decoding.candidates
    estimate, error, warnings = table.estimate, table.std_error, decoding.warnings
    low = np.where(table.detected, table.selected_low, table.low)
    high = np.where(table.detected, table.selected_high, table.high)
    excess, too_short = _crowding(aggregate, candidates)
    if excess > 0:
        warnings += _crowded(len(estimate), excess)
    if too_short:
        low, high = np.zeros_like(low), np.maximum(high, _allowed(aggregate, candidates, decoding))
        warnings += _not_located(aggregate.params, len(estimate))
    low = np.where(table.detected, np.maximum(low, LEAST), low)
    return CellEstimates(estimate, error, low.clip(0, 1), high.clip(0, 1), table.detected, warnings)


def _crowding(aggregate: Aggregate, candidates: Candidates) -> tuple[int, bool]:
    """By how many the cells outnumber what their regression has to read, 0 if not crowded; and
    whether the bits of a cell in all cohorts name fewer lists than there are of heavy cells."""
    params = aggregate.params
    if candidates.direct(params):
        return 0, False
    cohorts = sum(count > 0 for count in aggregate.reports_per_cohort)
    numbers = cohorts * (params.num_bits - bool(params.scheme.symbols))
    digits = cohorts * params.num_hashes * math.log2(max(params.num_bits, 2))
    excess = max(len(candidates) - numbers, 0) if numbers <= MAX_NUMBERS else 0
    return excess, digits < HEAVY * math.log2(len(candidates))


def _allowed(aggregate: Aggregate, candidates: Candidates, decoding: Decoding) -> Floats:
    """The most that each cell can hold: no more than its first bit shows in any cohort, (M,).

    One-sided limits, each at the level of the intervals shared by the cohorts.
    """
    positions = candidates.positions(aggregate.params)
    observed = observe(aggregate, positions, decoding.summary.repetition)
    noise, shares = observed.noise, np.clip(observed.bit_shares, 0.0, 1.0)
    variance = noise.bits.mechanism_variance(shares, noise.repetition)
    variance = variance + noise.repetition * shares * (1 - shares)
    tail = (1 - decoding.options.level) / len(shares)
    limits = observed.bit_shares - ndtri(tail) * np.sqrt(variance / noise.reports[:, None])
    first = observed.positions[:, :, 0].astype(np.intp)
    return np.asarray(limits[np.arange(len(limits)), first].min(axis=1).clip(0, 1))


def _crowded(cells: int, excess: int) -> tuple[str, ...]:
    """A warning that the map is one of several."""
    return (
        f"{cells:,} cells are read from {cells - excess:,} numbers: different maps explain them "
        "about equally well. Intervals of 95 % of detected cells hold the truth less often than 95 "
        "times in 100. Use a coarser level, or more cohorts, bits or symbols.",
    )


def _not_located(params: RapporParams, cells: int) -> tuple[str, ...]:
    """A warning that cohorts are too few to say where anybody is, and how many would do."""
    digits = params.num_hashes * math.log2(max(params.num_bits, 2))
    enough = math.ceil(HEAVY * math.log2(cells) / digits)
    return (
        f"{params.num_cohorts} cohorts cannot tell where {HEAVY} heavy cells of {cells:,} are: the "
        "map is one of many that the reports allow, and the interval of each cell begins at 0. "
        f"Declare {enough} cohorts or more.",
    )
