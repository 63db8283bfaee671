"""The rival method: google/rappor's estimate of the joint table by EM, re-implemented from the
paper.

Fanti, Pihur, Erlingsson 2016 (arXiv:1503.01214), section 3: EM over the candidates of both
variables from the even table, with the likelihood of each report given each pair; the covariance is
the inverse of the observed information; the test of independence weighs the departures from the
product of the margins with that information. It stops where no share moves by 1e-6 or more, after
1,000 steps at most, as the published program does. Compiled, in float64. The likelihood of a pair
is multiplied when it is needed, so that no array of reports by pairs is held, as it is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.special import ndtri
from scipy.stats import chi2

from decoder.association.linked import Bits, LinkedReports, Side
from decoder.numerics.threads import one_thread
from decoder.typing import Floats, Indices

MOST_STEPS, LEAST_CHANGE = 1_000, 1e-6
BLOCK = 4_096  # reports at once, for the information


class PublishedTable(NamedTuple):
    """Shares (M1, M2), the steps taken, and the largest change of a share in the last."""

    shares: Floats
    steps: int
    change: float


class PublishedEm:
    """The published EM, from reports of two metrics as likelihoods of the values of each."""

    def __init__(self, reports: LinkedReports, first: Side, second: Side) -> None:
        """Keep both likelihoods, (N, M1) and (N, M2)."""
        self.rows = _given_values(reports.first, reports.cohorts, first)
        self.columns = _given_values(reports.second, reports.cohorts, second)

    def fit(self, most: int = MOST_STEPS, least_change: float = LEAST_CHANGE) -> PublishedTable:
        """Run EM from the even table until its stopping rule."""
        wide = self.rows.shape[1] > self.columns.shape[1]  # the long side in the inner loop
        sides = (self.columns, self.rows) if wide else (self.rows, self.columns)
        shape = sides[0].shape[1], sides[1].shape[1]
        table, change, steps = np.full(shape, 1 / (shape[0] * shape[1])), np.inf, 0
        while steps < most and change >= least_change:
            moved = table * _gradient(table, *sides) / len(self.rows)
            change = float(np.abs(moved - table).max())
            table, steps = moved, steps + 1
        return PublishedTable(np.ascontiguousarray(table.T) if wide else table, steps, change)

    def information(self, shares: Floats) -> Floats:
        """Observed information of all shares, without their sum, (M1 M2, M1 M2)."""
        found = np.zeros((shares.size, shares.size))
        with one_thread():
            for start in range(0, len(self.rows), BLOCK):
                some = self.rows[start : start + BLOCK], self.columns[start : start + BLOCK]
                chance = np.einsum("na,ab,nb->n", some[0], shares, some[1], optimize=True)
                scores = (some[0] / chance[:, None])[:, :, None] * some[1][:, None, :]
                flat = scores.reshape(len(scores), -1)
                found += flat.T @ flat
        return found


@dataclass(frozen=True)
class PublishedInference:
    """Standard errors and test of a table as the paper defines them. information: as observed."""

    shares: Floats
    information: Floats

    @cached_property
    def std_errors(self) -> Floats:
        """Standard error of each share, (M1, M2); NaN where the information has no inverse."""
        with one_thread():
            try:
                inverse = np.linalg.inv(self.information)
            except np.linalg.LinAlgError:
                return np.full(self.shares.shape, np.nan)
        variances = np.diag(inverse)
        return np.sqrt(np.where(variances >= 0, variances, np.nan)).reshape(self.shares.shape)

    def covered(self, truth: Floats, level: float = 0.95) -> float:
        """Share of the cells whose normal interval holds the truth; none is no cover."""
        reach = float(ndtri(0.5 + level / 2)) * self.std_errors
        return float((np.abs(self.shares - truth) <= reach).mean())

    def p_value(self) -> float:
        """P-value of independence: chi-squared with (M1 - 1)(M2 - 1) degrees of freedom."""
        product = np.outer(self.shares.sum(axis=1), self.shares.sum(axis=0))
        departure = (self.shares - product).ravel()
        freedom = (self.shares.shape[0] - 1) * (self.shares.shape[1] - 1)
        return float(chi2.sf(departure @ self.information @ departure, freedom))


def _given_values(bits: Bits, cohorts: Indices, side: Side) -> Floats:
    """Chance of each report's bits given each value, over that of no bit set, (N, M)."""
    p, q = side.noise.p_star, side.noise.q_star
    ratio = np.where(bits == 1, np.log(q / p), np.log((1 - q) / (1 - p)))
    found = np.empty((len(bits), len(side.values)))
    for cohort in range(len(side.designs)):
        mine = cohorts == cohort
        found[mine] = np.exp(ratio[mine] @ side.designs[cohort])
    return found


@njit(nogil=True, fastmath={"reassoc", "contract"})
def _gradient(table: Floats, rows: Floats, columns: Floats) -> Floats:
    """Sum over reports of the likelihood of each pair over that of the report, (A, B)."""
    found = np.zeros(table.shape)
    for report in range(len(rows)):
        row, column = rows[report], columns[report]
        chance = 0.0
        for a in range(table.shape[0]):
            inner = 0.0
            for b in range(table.shape[1]):
                inner += table[a, b] * column[b]
            chance += row[a] * inner
        for a in range(table.shape[0]):
            part = row[a] / chance
            for b in range(table.shape[1]):
                found[a, b] += part * column[b]
    return found
