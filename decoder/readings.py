"""What an aggregate says about the cells of a map, as linear equations: target = design @ shares.

One equation for each bit of each cohort (or one for each cell, where every cell has its own bit).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from decoder.bit_tensor import Positions
from decoder.errors import DecodeError
from decoder.noise import BitNoise
from decoder.pipeline import bit_noise
from rappor_core.aggregate import Aggregate

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Reading:
    """Equations of one level. design: sparse, (rows, n) for n cells of the finest level.

    target: debiased bit shares, (rows,).  reports: behind each row.  noise: of one bit.
    repetition: rho = sum r^2 / sum r over devices.  symbols: one symbol of g, not g bits.
    """

    design: Any
    target: Floats
    reports: Floats
    noise: BitNoise
    repetition: float
    symbols: bool = False

    def precision(self, shares: Floats) -> Floats:
        """Inverse variance of each row (rows,) when the cells hold `shares` (n,).

        The reported symbols of a cohort are multinomial; diag(1/s) is a generalised inverse of
        their covariance, so a symbol's row counts with 1/s where a bit's has 1/(s (1 - s)).
        """
        held = np.clip(self.design @ shares, 0.0, 1.0)
        variance = self.noise.mechanism_variance(held, self.repetition)
        variance = variance + self.repetition * held * (1 - held)
        if self.symbols:
            shown = self.noise.p_star + self.noise.gap * held
            variance = variance / np.maximum(1 - shown, 1e-6)
        return np.asarray(self.reports / variance)


def read_aggregate(
    aggregate: Aggregate, positions: Positions, cells: Indices, repetition: float, num_cells: int
) -> Reading:
    """Write the equations of an aggregate about values of its own level.

    positions: (M, m, h), of the level's values.  cells: for each of `num_cells` cells of the finest
    level, the value that holds it.  Raises DecodeError without reports.
    """
    reports = np.array(aggregate.reports_per_cohort, dtype=np.float64)
    counts = np.array(aggregate.bit_counts, dtype=np.float64)
    noise = bit_noise(aggregate.params.mechanism)
    if aggregate.params.encoding == "one_hot":
        reports, counts = reports.sum(keepdims=True), counts.sum(axis=0, keepdims=True)
        positions = positions[:, :1]
    present = np.flatnonzero(reports > 0)
    if not len(present):
        raise DecodeError(
            f"metric {aggregate.metric!r} has no reports in this window; "
            "choose a window with reports, or wait until its days are closed"
        )
    totals = np.repeat(reports[present], aggregate.params.num_bits)
    target = (counts[present].ravel() / totals - noise.p_star) / noise.gap
    design = _design(positions[:, present], aggregate.params.num_bits)[:, cells]
    if design.shape[1] != num_cells:
        raise DecodeError(f"{design.shape[1]} cells were given a value; {num_cells} are mapped")
    symbols = aggregate.params.encoding == "symbol"
    return Reading(design.tocsr(), target, totals, noise, repetition, symbols)


def _design(positions: Positions, num_bits: int) -> Any:
    """X as a sparse matrix (m*k, M); the sentinel k of repeated hashes is left out."""
    num_values, num_cohorts, _ = positions.shape
    rows = positions.astype(np.int64) + num_bits * np.arange(num_cohorts)[None, :, None]
    columns = np.broadcast_to(np.arange(num_values)[:, None, None], positions.shape)
    used = positions < num_bits
    shape = (num_cohorts * num_bits, num_values)
    ones = np.ones(int(used.sum()))
    return sparse.csc_array((ones, (rows[used], columns[used])), shape=shape)
