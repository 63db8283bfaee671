"""Linear programs over numbers of reports and of persons, solved by HiGHS.

The unknowns are the reports of each atom, the sum of them in each table, and the persons of each
value in each atom; one more, `scale`, represents the number 1. All constraints are then homogeneous
(G z <= 0, E z = 0, z >= 0), and one unknown is fixed: `scale` where numbers of reports are asked
for, the reports of a table where a share of them is. The ratio of two unknowns is so an
objective like any other (Charnes and Cooper 1962, Programming with linear fractional functionals).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from highspy import Highs, HighsLp, HighsModelStatus, HighsStatus, MatrixFormat, kHighsInf
from scipy.sparse import coo_array, csr_array, hstack

from disclosure.errors import ReleaseError
from disclosure.typing import Booleans, Floats, Integers

_ENDS = HighsModelStatus.kOptimal, HighsModelStatus.kInfeasible, HighsModelStatus.kUnbounded
_PRIMAL = 4  # the simplex strategy of HiGHS
_TIGHT = 1e-9  # a dual value above this
_SLACK = 1e-6  # reports; less is not a contradiction


class Optimum(NamedTuple):
    """The solution of a linear program.

    value: of the objective, -inf where it has no bound.  point: z.  duals: of the rows.
    """

    value: float
    point: Floats
    duals: Floats


class _Silent(Highs):  # type: ignore[misc]
    """HiGHS that prints nothing, not even who made it."""

    def enableCallbacks(self) -> None:  # noqa: N802
        """Called when it is made, as the first to print."""
        self.silent()


class LinearProgram:
    """Minimize cost . z over A z <= 0 (the first rows) or A z = 0 (the others), 0 <= z <= most.

    HiGHS (Huangfu and Hall 2018, "Parallelizing the dual revised simplex method") starts each
    solution at the basis of the one before, by the primal simplex method.
    """

    def __init__(self, below: csr_array, equal: csr_array, most: Floats) -> None:
        self._highs = _Silent()
        self._highs.setOptionValue("threads", 1)
        self._highs.setOptionValue("presolve", "off")  # it would not start at the last basis
        self._highs.setOptionValue(
            "simplex_strategy", _PRIMAL
        )  # another objective leaves it feasible
        self._least = np.concatenate(
            [np.full(below.shape[0], -kHighsInf), np.zeros(equal.shape[0])]
        )
        lp = HighsLp()
        lp.num_col_, lp.num_row_ = len(most), len(self._least)
        lp.col_cost_, lp.col_lower_ = np.zeros(len(most)), np.zeros(len(most))
        lp.col_upper_ = np.where(np.isinf(most), kHighsInf, most)
        lp.row_lower_, lp.row_upper_ = self._least, np.zeros(len(self._least))
        lp.a_matrix_.format_ = MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.append(below.indptr, below.indptr[-1] + equal.indptr[1:])
        lp.a_matrix_.index_ = np.append(below.indices, equal.indices)
        lp.a_matrix_.value_ = np.append(below.data, equal.data)
        _check(self._highs.passModel(lp))
        self._width = len(most)

    def add_sum(self, columns: Sequence[int]) -> int:
        """Add an unknown that equals the sum of some others; return its column."""
        highs, empty = self._highs, np.zeros(0, dtype=np.int32)
        new = int(highs.getNumCol())
        _check(highs.addCol(0.0, 0.0, kHighsInf, 0, empty, np.zeros(0)))
        entries = np.array([*columns, new], dtype=np.int32)
        signs = np.append(np.ones(len(columns)), -1.0)
        _check(highs.addRow(0.0, 0.0, len(entries), entries, signs))
        return new

    def set_costs(self, cost: Floats) -> None:
        """The objective, of the first unknowns."""
        columns = np.arange(len(cost), dtype=np.int32)
        _check(self._highs.changeColsCost(len(cost), columns, cost))

    def fix(self, column: int, value: float | None) -> None:
        """Fix an unknown at a value; None removes the fixing (any value from 0)."""
        ends = (0.0, kHighsInf) if value is None else (value, value)
        _check(self._highs.changeColBounds(column, *ends))

    def hold(self, rows: Sequence[int] | Integers, *, active: bool) -> None:
        """Switch some of the first (inequality) rows on or off."""
        for row in rows:
            _check(self._highs.changeRowBounds(int(row), -kHighsInf, 0.0 if active else kHighsInf))

    def solve(self) -> Optimum | None:
        """The optimum; None where nothing fits. Raises ReleaseError where HiGHS finds neither."""
        highs = self._highs
        status = HighsModelStatus.kNotset
        for again in range(2):
            if again:
                highs.clearSolver()
            highs.solve()
            status = highs.getModelStatus()
            if status in _ENDS:
                break
        if status == HighsModelStatus.kInfeasible:
            return None
        if status == HighsModelStatus.kUnbounded:
            return Optimum(-np.inf, np.zeros(self._width), np.zeros(len(self._least)))
        if status != HighsModelStatus.kOptimal:
            name = highs.modelStatusToString(status)
            raise ReleaseError(f"a linear program was not solved: {name}")
        result = highs.getSolution()
        value = float(highs.getInfo().objective_function_value)
        point, duals = np.asarray(result.col_value), np.asarray(result.row_dual)
        return Optimum(value, point[: self._width], duals)


def _check(status: HighsStatus) -> None:
    if status == HighsStatus.kError:
        raise ReleaseError("HiGHS refused a linear program")


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
        """Return the rows as a sparse matrix, (count, width)."""
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

    def hold(self, rows: Sequence[int] | Integers, *, active: bool) -> None:
        """Switch constraints on or off. rows: of G."""
        self.active[rows] = active
        self._program.hold(rows, active=active)

    def minimize(self, cost: Floats, base: tuple[int, ...]) -> Optimum | None:
        """The least cost . z where the unknowns `base` add up to `unit`; None: nothing fits."""
        program = self._program
        fixed = self._sums.get(base)
        if fixed is None:
            fixed = self._sums[base] = program.add_sum(base)
        program.fix(self._fixed, None)
        program.fix(fixed, self.unit)
        self._fixed = fixed
        program.set_costs(cost)
        return program.solve()

    def tight(self, optimum: Optimum) -> Integers:
        """Return the rows of G that bind at an optimum."""
        return np.flatnonzero(np.abs(optimum.duals[: self.below.shape[0]]) > _TIGHT)

    def widen(self) -> int:
        """Widen what contradicts the rest, by as little as can be and one step of rounding more.

        Decodings of a whole and of its parts are fitted one by one, and do not add up exactly. No
        row is dropped.

        Returns:
            How many rows were widened.
        """
        if self.minimize(np.zeros(self.size), (self.scale,)) is not None:
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
        optimum = program.solve()
        if optimum is None:
            raise ReleaseError("published numbers contradict each other beyond repair")
        excess = optimum.point[self.size :]
        wrong = np.flatnonzero(excess > _SLACK)
        by = (excess[wrong] + self.slack[soft[wrong]]) / self.unit
        change = coo_array(
            (-by, (soft[wrong], np.full(len(wrong), self.scale))), shape=self.below.shape
        )
        self.below = csr_array(self.below + csr_array(change))
        self._load()
        return len(wrong)

    def row_of(self, columns: Sequence[int]) -> Floats:
        """Return a vector (size,) that is 1 at these unknowns and 0 elsewhere."""
        row = np.zeros(self.size)
        row[list(columns)] = 1.0
        return row
