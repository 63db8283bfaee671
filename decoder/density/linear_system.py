"""Linear equations between an aggregate and the cells of a map: target = design @ shares.

One equation for each bit of each cohort (or one for each cell, where every cell has its own bit).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from decoder.errors import DecodeError
from decoder.model.counts import unbiased
from decoder.model.design_matrix import design_matrix
from decoder.model.noise import BitNoise
from decoder.numerics.bit_tensor import Positions
from decoder.typing import Floats, Indices
from rappor_core.aggregate import Aggregate
from rappor_core.params import RapporParams


@dataclass(frozen=True)
class LevelEquations:
    """The linear equations of one level. design: sparse, (rows, n) for n cells of the finest
    level.

    target: debiased bit shares, (rows,).  reports: behind each row.  noise: of one bit.
    repetition: rho = sum r^2 / sum r over devices.  symbols: g where a report is one of g symbols,
    0 where it is bits.
    """

    design: Any
    target: Floats
    reports: Floats
    noise: BitNoise
    repetition: float
    symbols: int = 0

    @property
    def freedom(self) -> int:
        """Number of independent rows: the symbols of a cohort sum to its reports."""
        rows = int((self.reports > 0).sum())
        return rows - rows // self.symbols if self.symbols else rows

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


WindowReadings = Sequence[Sequence[LevelEquations]]  # of each window, one reading for each level


def read_aggregate(
    aggregate: Aggregate, design: Any, repetition: float, *, keep_empty: bool = False
) -> LevelEquations:
    """Make the equations of an aggregate. design: of all its rows (`design_of`).

    keep_empty: keep the rows of cohorts without reports, with precision 0.
    Raises DecodeError without reports.
    """
    reports = np.array(aggregate.reports_per_cohort, dtype=np.float64)
    counts = np.array(aggregate.bit_counts, dtype=np.float64)
    noise = BitNoise.of(aggregate.params.mechanism)
    if aggregate.params.scheme.own_bits:
        reports, counts = reports.sum(keepdims=True), counts.sum(axis=0, keepdims=True)
    if not reports.any():
        raise DecodeError(
            f"metric {aggregate.metric!r} has no reports in this window; "
            "choose a window with reports, or wait until its days are closed"
        )
    totals, ones = np.repeat(reports, aggregate.params.num_bits), counts.ravel()
    present = totals > 0
    if not keep_empty and not present.all():
        design, totals, ones = design[present], totals[present], ones[present]
    shares = ones / np.maximum(totals, 1)
    target = np.where(totals > 0, unbiased(shares, noise), 0.0)
    symbols = aggregate.params.num_bits if aggregate.params.scheme.symbols else 0
    return LevelEquations(design, target, totals, noise, repetition, symbols)


def design_of(positions: Positions, params: RapporParams, cells: Indices) -> Any:
    """The design matrix X as a sparse matrix (m*k, n); one cohort stands for all where every
    value has its own bit.

    positions: (M, m, h), of the values of a level; the sentinel k of repeated hashes is left out.
    cells: (n,), for each cell of the finest level the value that holds it.
    """
    if params.scheme.own_bits:
        positions = positions[:, :1]
    return design_matrix(positions, params.num_bits)[:, cells].tocsr()
