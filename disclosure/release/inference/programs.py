"""Linear programs over numbers of reports and people, solved by HiGHS.

The unknowns are the reports of each atom, their sum in each table, and the people of each value in
each atom; one more, `scale`, represents the number 1. All constraints are then homogeneous (G z <=
0, E z = 0, z >= 0), and one unknown is fixed: `scale` for numbers of reports, or a table's reports
for a share of them. So the ratio of two unknowns is a linear objective (Charnes and Cooper 1962,
Programming with linear fractional functionals)."""

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
_TIGHT = 1e-9  # a constraint with a larger dual value binds
_SLACK = 1e-6  # reports; a smaller excess is not a contradiction


class Optimum(NamedTuple):
    """The solution of a linear program."""

    value: float  # Of the objective, -inf if unbounded
    point: Floats  # z
    duals: Floats  # Of the rows


class _Silent(Highs):  # type: ignore[misc]
    """HiGHS without any output, not even its banner."""

    def enableCallbacks(self) -> None:  # noqa: N802
        """Silence the solver; this is called at creation, before anything is printed."""
        self.silent()


class LinearProgram:
    """The program: minimize cost . z, A z <= 0 (first rows) or A z = 0 (others), 0 <= z <= most.

    HiGHS (Huangfu and Hall 2018, "Parallelizing the dual revised simplex method") starts each
    solution at the last basis, by the primal simplex method."""

    def __init__(self, below: csr_array, equal: csr_array, most: Floats) -> None:
        self._highs = _Silent()
        self._highs.setOptionValue("threads", 1)
        self._highs.setOptionValue("presolve", "off")  # presolve discards the last basis
        self._highs.setOptionValue(
            "simplex_strategy", _PRIMAL
        )  # a new objective leaves it feasible
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
        """Add an unknown that equals the sum of some others, and return its column."""
        highs, empty = self._highs, np.zeros(0, dtype=np.int32)
        new = int(highs.getNumCol())
        _check(highs.addCol(0.0, 0.0, kHighsInf, 0, empty, np.zeros(0)))
        entries = np.array([*columns, new], dtype=np.int32)
        signs = np.append(np.ones(len(columns)), -1.0)
        _check(highs.addRow(0.0, 0.0, len(entries), entries, signs))
        return new

    def set_costs(self, cost: Floats) -> None:
        """Set the objective for the first unknowns."""
        columns = np.arange(len(cost), dtype=np.int32)
        _check(self._highs.changeColsCost(len(cost), columns, cost))

    def fix(self, column: int, value: float | None) -> None:
        """Fix an unknown at a value; None frees it (any value from 0)."""
        ends = (0.0, kHighsInf) if value is None else (value, value)
        _check(self._highs.changeColBounds(column, *ends))

    def hold(self, rows: Sequence[int] | Integers, *, active: bool) -> None:
        """Activate or deactivate some of the first (inequality) rows."""
        for row in rows:
            _check(self._highs.changeRowBounds(int(row), -kHighsInf, 0.0 if active else kHighsInf))

    def solve(self) -> Optimum | None:
        """Return the optimum; None if infeasible. Raises ReleaseError if HiGHS fails."""
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
        raise ReleaseError("HiGHS rejected a linear program")


@dataclass
class SparseRows:
    """A sparse matrix under construction, row by row."""

    row: list[int] = field(default_factory=list)
    column: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    count: int = 0

    def add(self, columns: Sequence[int], values: Sequence[float]) -> None:
        """Append a row that has `values` at `columns`."""
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
    """The set of solutions {z >= 0: G z <= 0, E z = 0, z[zero] = 0} of linear constraints."""

    below: csr_array
    equal: csr_array
    zero: Booleans
    scale: int  # Column of the number 1
    unit: float  # The value of `scale` in a program over reports
    slack: Floats  # For each row of G, the step of relaxing it, in reports; 0 to never relax
    active: Booleans = field(init=False)  # Flags of the active rows of G
    _program: LinearProgram = field(init=False)
    _sums: dict[tuple[int, ...], int] = field(init=False)
    _fixed: int = field(init=False)

    def __post_init__(self) -> None:
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
        """The number of unknowns of the linear program."""
        return int(self.below.shape[1])

    def hold(self, rows: Sequence[int] | Integers, *, active: bool) -> None:
        """Activate or deactivate constraints, given by rows of G."""
        self.active[rows] = active
        self._program.hold(rows, active=active)

    def minimize(self, cost: Floats, base: tuple[int, ...]) -> Optimum | None:
        """Minimize cost . z with the sum of unknowns `base` fixed at `unit`; None if infeasible."""
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
        """Relax contradictory constraints by the minimum plus one step; return their number.

        A whole and its parts are decoded separately, so they do not add up exactly. No row is
        dropped. The step is a rounding step."""
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
