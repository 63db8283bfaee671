"""Estimates of each cell of a map by itself, from its regression: share, interval, and whether it
differs from zero; with a warning where the numbers are too few for that.
"""

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

HEAVY = 3  # cells that a map may consist of, which cohorts must tell from all others
MAX_NUMBERS = 192  # that a map is read from; with more, one fit is enough (docs/method.md)


class CellEstimates(NamedTuple):
    """Unbiased estimates of each cell by itself with intervals in [0, 1], (n,); warnings."""

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
    estimate: one that begins at LEAST says of its lower end no more than the test does. Where the
    bits of a cell in all cohorts name fewer lists than there are of heavy cells, an interval begins
    at 0 and ends at what its bits allow.
    """
    table, params, cells = decoding.candidates, aggregate.params, len(candidates)
    low = np.where(table.detected, table.selected_low, table.low)
    high = np.where(table.detected, table.selected_high, table.high)
    warnings = decoding.warnings
    if not candidates.direct(params):
        cohorts = sum(count > 0 for count in aggregate.reports_per_cohort)
        numbers = cohorts * (params.num_bits - bool(params.scheme.symbols))
        digits = params.num_hashes * math.log2(max(params.num_bits, 2))
        needed = HEAVY * math.log2(cells)
        if numbers < cells and numbers <= MAX_NUMBERS:
            warnings += (
                f"{cells:,} cells are read from {numbers:,} numbers: different maps explain them "
                "about equally well. Intervals of 95 % of detected cells hold the truth less often "
                "than 95 times in 100. Use a coarser level, or more cohorts, bits or symbols.",
            )
        if cohorts * digits < needed:
            allowed = _allowed(aggregate, candidates, decoding)
            low, high = np.zeros_like(low), np.maximum(high, allowed)
            warnings += (
                f"{params.num_cohorts} cohorts cannot tell where {HEAVY} heavy cells of {cells:,} "
                "are: the map is one of many that the reports allow, and the interval of each cell "
                f"begins at 0. Declare {math.ceil(needed / digits)} cohorts or more.",
            )
    low = np.where(table.detected, np.maximum(low, LEAST), low)
    return CellEstimates(table.estimate, table.std_error, low.clip(0, 1), high.clip(0, 1),
                         table.detected, warnings)  # fmt: skip


def _allowed(aggregate: Aggregate, candidates: Candidates, decoding: Decoding) -> Floats:
    """The most that each cell can hold, (M,): what its first bit shows in any cohort, by one-sided
    limits at the level of the intervals shared by the cohorts."""
    positions = candidates.positions(aggregate.params)
    observed = observe(aggregate, positions, decoding.summary.repetition)
    noise, shares = observed.noise, np.clip(observed.bit_shares, 0.0, 1.0)
    variance = noise.bits.mechanism_variance(shares, noise.repetition)
    variance = variance + noise.repetition * shares * (1 - shares)
    tail = (1 - decoding.options.level) / len(shares)
    limits = observed.bit_shares - ndtri(tail) * np.sqrt(variance / noise.reports[:, None])
    first = observed.positions[:, :, 0].astype(np.intp)
    return np.asarray(limits[np.arange(len(limits)), first].min(axis=1).clip(0, 1))
