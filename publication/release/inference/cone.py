"""Linear programs over numbers of reports and of persons, by HiGHS.

The unknowns are the reports of each atom, the sum of them in each table, and the persons of each
value in each atom; one more, `scale`, stands for the number 1. All constraints are then homogeneous
(G z <= 0, E z = 0, z >= 0), and one more row fixes the size: `scale` where numbers of reports are
asked for, the reports of a table where a share of them is. The ratio of two unknowns is so an
objective like any other (Charnes and Cooper 1962, Programming with linear fractional functionals).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array, eye_array, hstack, vstack

from publication.errors import ReleaseError
from publication.typing import Booleans, Floats, Integers

_TIGHT = 1e-9  # a dual value above this
_SLACK = 1e-6  # reports; less is not a contradiction


@dataclass(frozen=True)
class Optimum:
    """value: of the objective, infinite where it is unbounded. point: z. tight: rows of G."""

    value: float
    point: Floats
    tight: Integers


@dataclass
class Rows:
    """Rows of a sparse matrix, gathered one by one."""

    row: list[int] = field(default_factory=list)
    column: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    count: int = 0

    def add(self, columns: Sequence[int], values: Sequence[float]) -> None:
        """One more row with these entries."""
        self.row += [self.count] * len(columns)
        self.column += columns
        self.value += values
        self.count += 1

    def matrix(self, width: int) -> csr_array:
        """(count, width)."""
        entries = (self.value, (self.row, self.column))
        return csr_array(coo_array(entries, shape=(self.count, width)))


_solver: Any = linprog  # its types know no sparse matrix


@dataclass
class Cone:
    """{z >= 0: G z <= 0, E z = 0, z[zero] = 0}.

    active: rows of G that hold.  scale: column of the number 1, and unit: its value in a program
    over reports.  slack: for each row of G, what it may be widened by at a time, in reports; 0 for
    one that always holds.
    """

    below: csr_array
    equal: csr_array
    active: Booleans
    zero: Booleans
    scale: int
    unit: float
    slack: Floats

    @property
    def size(self) -> int:
        """Number of unknowns."""
        return int(self.below.shape[1])

    def minimise(self, cost: Floats, norm: Floats, size: float) -> Optimum | None:
        """The least cost . z with norm . z = size; None where nothing fits."""
        return self._solve(cost, norm, size, self.below, None)

    def reach(
        self, sums: csr_array, most: Floats, norm: Floats, size: float
    ) -> tuple[Floats, Floats] | None:
        """Maximise sum_k min(sums_k . z, most_k): one point in which as many as can be are large.

        Returns:
            z, and what each sum reached; None where nothing fits.
        """
        count = sums.shape[0]
        wide = csr_array(hstack([self.below, csr_array((self.below.shape[0], count))]))
        bound = csr_array(hstack([-sums, eye_array(count)]))
        cost = np.append(np.zeros(self.size), -1.0 / np.maximum(most, 1e-300))
        found = self._solve(cost, norm, size, wide, (bound, most))
        return None if found is None else (found.point[: self.size], found.point[self.size :])

    def _solve(
        self,
        cost: Floats,
        norm: Floats,
        size: float,
        below: csr_array,
        more: tuple[csr_array, Floats] | None,
    ) -> Optimum | None:
        added = len(cost) - self.size
        rows = np.flatnonzero(self.active)
        upper = below[rows]
        if more is not None:
            upper = csr_array(vstack([upper, more[0]]))
        padding = csr_array((self.equal.shape[0] + 1, added))
        equal = hstack([vstack([self.equal, csr_array(norm.reshape(1, -1))]), padding])
        ends = np.zeros(self.equal.shape[0] + 1)
        ends[-1] = size
        most = np.where(self.zero, 0.0, np.inf)
        if more is not None:
            most = np.append(most, more[1])
        found = _solver(
            cost,
            A_ub=upper,
            b_ub=np.zeros(upper.shape[0]),
            A_eq=csr_array(equal),
            b_eq=ends,
            bounds=np.column_stack([np.zeros(len(cost)), most]),
            method="highs-ds",
        )
        if found.status == 0:
            duals = np.abs(found.ineqlin.marginals[: len(rows)])
            return Optimum(float(found.fun), np.asarray(found.x), rows[duals > _TIGHT])
        if found.status == 3:
            return Optimum(-np.inf, np.zeros(len(cost)), rows[:0])
        if found.status == 2:
            return None
        raise ReleaseError(f"a linear program was not solved: {found.message}")

    def widen(self) -> int:
        """Widen what contradicts the rest, by as little as can be and one step of rounding more.

        Decodings of a whole and of its parts are fitted one by one, and do not add up exactly. No
        row is dropped.

        Returns:
            How many rows were widened.
        """
        norm = self.row_of([self.scale])
        if self.minimise(np.zeros(self.size), norm, self.unit) is not None:
            return 0
        soft = np.flatnonzero(self.slack > 0)
        loose = coo_array(
            (-np.ones(len(soft)), (soft, np.arange(len(soft)))),
            shape=(self.below.shape[0], len(soft)),
        )
        cost = np.append(np.zeros(self.size), 1.0 / self.slack[soft])
        wide = csr_array(hstack([self.below, loose]))
        nothing = csr_array((0, self.size + len(soft)))
        found = self._solve(cost, norm, self.unit, wide, (nothing, np.full(len(soft), np.inf)))
        if found is None:
            raise ReleaseError("published numbers contradict each other beyond repair")
        excess = found.point[self.size :]
        wrong = np.flatnonzero(excess > _SLACK)
        by = (excess[wrong] + self.slack[soft[wrong]]) / self.unit
        change = coo_array(
            (-by, (soft[wrong], np.full(len(wrong), self.scale))), shape=self.below.shape
        )
        self.below = csr_array(self.below + csr_array(change))
        return len(wrong)

    def row_of(self, columns: Sequence[int]) -> Floats:
        """(size,) 1 at these unknowns."""
        found = np.zeros(self.size)
        found[list(columns)] = 1.0
        return found
