"""Maximum likelihood of the joint table from linked reports: EM, accelerated.

The likelihood of a report is a product of one factor for each metric, so that a step is two matrix
products (Fanti, Pihur, Erlingsson 2016, arXiv:1503.01214, section 3, without its N x M1 M2 array).
Acceleration: SQUAREM, scheme S3 (Varadhan, Roland 2008).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoder.association.linked import Bits, LinkedReports, Side
from decoder.typing import Floats, Indices

BLOCK = 4_096  # reports at once
LEAST = 1e-12
GAP = 1.0  # nats of log-likelihood that the result may be below the maximum
Factors = NDArray[np.float32]


class Likeliest(NamedTuple):
    """The maximum likelihood table (M1, M2), the number of EM steps, and how far its likelihood
    may be from the maximum.

    gap: bound in nats: N (max gradient - 1), as the log-likelihood is concave.
    """

    table: Floats
    steps: int
    gap: float


def likeliest_table(
    reports: LinkedReports, first: Side, second: Side, most_steps: int = 600
) -> Likeliest:
    """Run EM from the uniform table until within 1 nat of the maximum, or for `most_steps`
    evaluations."""
    rows = likelihoods(reports.first, reports.cohorts, first)
    columns = likelihoods(reports.second, reports.cohorts, second)
    shape = len(first.values), len(second.values)
    table = np.full(shape, 1 / (shape[0] * shape[1]))
    taken, gap = 0, np.inf
    while taken < most_steps:
        one, level, gap = em_step(table, rows, columns)
        if gap < GAP:
            break
        two, _, _ = em_step(one, rows, columns)
        moved, curved = one - table, two - 2 * one + table
        curve = max(float(np.linalg.norm(curved)), LEAST)
        length = min(-float(np.linalg.norm(moved)) / curve, -1.0)
        ahead = np.maximum(table - 2 * length * moved + length**2 * curved, 0.0)
        ahead = np.maximum(ahead / ahead.sum(), LEAST)
        found, reached, _ = em_step(ahead / ahead.sum(), rows, columns)
        table, taken = (found if reached >= level else two), taken + 3
    else:
        _, _, gap = em_step(table, rows, columns)
    return Likeliest(table, taken, float(gap))


def em_step(table: Floats, rows: Factors, columns: Factors) -> tuple[Floats, float, float]:
    """One EM step: the next table, the log-likelihood of this one, and the bound of its gap."""
    gradient, level = np.zeros_like(table), 0.0
    small = table.astype(np.float32)
    for start in range(0, len(rows), BLOCK):
        some, others = rows[start : start + BLOCK], columns[start : start + BLOCK]
        chance = np.einsum("nb,nb->n", some @ small, others)
        chance = np.maximum(chance, np.finfo(np.float32).tiny)
        gradient += some.T @ (others / chance[:, None])
        level += float(np.log(chance.astype(np.float64)).sum())
    gradient /= len(rows)
    moved = table * gradient
    return moved / moved.sum(), level, len(rows) * (float(gradient.max()) - 1)


def likelihoods(bits: Bits, cohorts: Indices, side: Side) -> Factors:
    """Likelihood of each report under each value, up to a factor of the report, (N, M)."""
    found = np.empty((len(bits), len(side.values)), dtype=np.float32)
    for cohort in np.unique(cohorts).tolist():
        mine = cohorts == cohort
        chance = side.noise.p_star + side.noise.gap * side.designs[cohort]
        chance = np.clip(chance, LEAST, 1 - LEAST)
        clear = np.log1p(-chance)
        logs = bits[mine] @ (np.log(chance) - clear) + clear.sum(axis=0)
        found[mine] = np.exp(logs - logs.max(axis=1, keepdims=True))
    return found
