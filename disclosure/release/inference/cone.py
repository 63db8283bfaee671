"""Linear programs over numbers of reports and of persons, by HiGHS.

The unknowns are the reports of each atom, the sum of them in each table, and the persons of each
value in each atom; one more, `scale`, stands for the number 1. All constraints are then homogeneous
(G z <= 0, E z = 0, z >= 0), and one unknown is fixed: `scale` where numbers of reports are asked
for, the reports of a table where a share of them is. The ratio of two unknowns is so an
objective like any other (Charnes and Cooper 1962, Programming with linear fractional functionals).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import coo_array, csr_array, eye_array, hstack, vstack

from disclosure.errors import ReleaseError
from disclosure.release.inference.program import LinearProgram
from disclosure.typing import Booleans, Floats, Integers

_TIGHT = 1e-9  # a dual value above this
_SLACK = 1e-6  # reports; less is not a contradiction


@dataclass(frozen=True)
class Optimum:
    """The solution of a linear program. value: of the objective, infinite where it is unbounded.
    point: z. tight: rows of G that bind there."""

    value: float
    point: Floats
    tight: Integers


@dataclass
class SparseRows:
    """A sparse matrix that is built row by row."""

    row: list[int] = field(default_factory=list)
    column: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    count: int = 0

    def add(self, columns: Sequence[int], values: Sequence[float]) -> None:
        """Append a row with these entries."""
        self.row += [self.count] * len(columns)
        self.column += columns
        self.value += values
        self.count += 1

    def matrix(self, width: int) -> csr_array:
        """The rows as a sparse matrix, (count, width)."""
        entries = (self.value, (self.row, self.column))
        return csr_array(coo_array(entries, shape=(self.count, width)))


@dataclass
class Cone:
    """The set of solutions {z >= 0: G z <= 0, E z = 0, z[zero] = 0} of linear constraints.

    scale: column of the number 1, and unit: its value in a program over reports.  slack: for each
    row of G, what it may be widened by at a time, in reports; 0 for one that always holds.
    active: rows of G that hold.
    """

    below: csr_array
    equal: csr_array
    zero: Booleans
    scale: int
    unit: float
    slack: Floats
    active: Booleans = field(init=False)
    _program: LinearProgram = field(init=False)
    _sums: dict[tuple[int, ...], int] = field(init=False)
    _fixed: int = field(init=False)

    def __post_init__(self) -> None:
        """Give the constraints to the solver."""
        self.active = np.ones(self.below.shape[0], dtype=bool)
        self._load()

    def _load(self) -> None:
        self._program = LinearProgram(self.below, self.equal, self._most())
        self._sums = {(column,): column for column in range(self.size)}
        self._fixed = self.scale

    def _most(self) -> Floats:
        return np.where(self.zero, 0.0, np.inf)

    @property
    def size(self) -> int:
        """Number of unknowns of the linear program."""
        return int(self.below.shape[1])

    def hold(self, rows: Sequence[int] | Integers, *, held: bool) -> None:
        """Switch constraints on or off. rows: of G."""
        self.active[rows] = held
        self._program.hold(rows, held=held)

    def minimise(self, cost: Floats, base: tuple[int, ...]) -> Optimum | None:
        """The least cost . z where the unknowns `base` add up to `unit`; None: nothing fits."""
        program = self._program
        fixed = self._sums.get(base)
        if fixed is None:
            fixed = self._sums[base] = program.add_sum(base)
        program.fix(self._fixed, None)
        program.fix(fixed, self.unit)
        self._fixed = fixed
        program.set_costs(cost)
        found = program.solve()
        if found is None:
            return None
        duals = np.abs(found.duals[: self.below.shape[0]])
        return Optimum(found.value, found.point, np.flatnonzero(duals > _TIGHT))

    def reach(self, sums: csr_array, most: Floats) -> Floats | None:
        """Maximise sum_k min(sums_k . z / most_k, 1): one point in which many are large.

        Returns:
            z, where the number 1 is `unit`; None where nothing fits.
        """
        count = sums.shape[0]
        held = self.below[np.flatnonzero(self.active)]
        wide = hstack([held, csr_array((held.shape[0], count))])
        bound = hstack([-sums, eye_array(count)])
        equal = csr_array(hstack([self.equal, csr_array((self.equal.shape[0], count))]))
        program = LinearProgram(
            csr_array(vstack([wide, bound])), equal, np.append(self._most(), most)
        )
        program.fix(self.scale, self.unit)
        program.set_costs(np.append(np.zeros(self.size), -1.0 / np.maximum(most, 1e-300)))
        found = program.solve()
        return None if found is None else found.point[: self.size]

    def widen(self) -> int:
        """Widen what contradicts the rest, by as little as can be and one step of rounding more.

        Decodings of a whole and of its parts are fitted one by one, and do not add up exactly. No
        row is dropped.

        Returns:
            How many rows were widened.
        """
        if self.minimise(np.zeros(self.size), (self.scale,)) is not None:
            return 0
        soft = np.flatnonzero(self.slack > 0)
        loose = coo_array(
            (-np.ones(len(soft)), (soft, np.arange(len(soft)))),
            shape=(self.below.shape[0], len(soft)),
        )
        equal = csr_array(hstack([self.equal, csr_array((self.equal.shape[0], len(soft)))]))
        most = np.append(self._most(), np.full(len(soft), np.inf))
        program = LinearProgram(csr_array(hstack([self.below, loose])), equal, most)
        program.fix(self.scale, self.unit)
        program.set_costs(np.append(np.zeros(self.size), 1.0 / self.slack[soft]))
        found = program.solve()
        if found is None:
            raise ReleaseError("published numbers contradict each other beyond repair")
        excess = found.point[self.size :]
        wrong = np.flatnonzero(excess > _SLACK)
        by = (excess[wrong] + self.slack[soft[wrong]]) / self.unit
        change = coo_array(
            (-by, (soft[wrong], np.full(len(wrong), self.scale))), shape=self.below.shape
        )
        self.below = csr_array(self.below + csr_array(change))
        self._load()
        return len(wrong)

    def row_of(self, columns: Sequence[int]) -> Floats:
        """A vector (size,) that is 1 at these unknowns and 0 elsewhere."""
        found = np.zeros(self.size)
        found[list(columns)] = 1.0
        return found
