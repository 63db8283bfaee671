"""A linear program that HiGHS keeps in memory, so that each solution starts at the basis of the
one before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from highspy import Highs, HighsLp, HighsModelStatus, HighsStatus, MatrixFormat, kHighsInf
from scipy.sparse import csr_array

from disclosure.errors import ReleaseError
from disclosure.typing import Floats, Integers

_ENDS = HighsModelStatus.kOptimal, HighsModelStatus.kInfeasible, HighsModelStatus.kUnbounded


class ProgramSolution(NamedTuple):
    """The solution of a linear program. value: of the objective, -inf where it has no bound.
    point: z. duals: of the rows."""

    value: float
    point: Floats
    duals: Floats


class _Silent(Highs):  # type: ignore[misc]
    """HiGHS that prints nothing, not even who made it."""

    def enableCallbacks(self) -> None:  # noqa: N802
        """Called when it is made, as the first to print."""
        self.silent()


class LinearProgram:
    """Minimise cost . z over A z <= 0 (the first rows) or A z = 0 (the others), 0 <= z <= most.

    HiGHS (Huangfu and Hall 2018, "Parallelizing the dual revised simplex method") starts each
    solution at the basis of the one before, by the primal simplex method where that is feasible.
    """

    def __init__(self, below: csr_array, equal: csr_array, most: Floats) -> None:
        self._highs = _Silent()
        self._highs.setOptionValue("threads", 1)
        self._highs.setOptionValue("presolve", "off")  # it would not start at the last basis
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
        own = int(highs.getNumCol())
        _check(highs.addCol(0.0, 0.0, kHighsInf, 0, empty, np.zeros(0)))
        entries = np.array([*columns, own], dtype=np.int32)
        signs = np.append(np.ones(len(columns)), -1.0)
        _check(highs.addRow(0.0, 0.0, len(entries), entries, signs))
        return own

    def set_costs(self, cost: Floats) -> None:
        """The objective, of the first unknowns."""
        columns = np.arange(len(cost), dtype=np.int32)
        _check(self._highs.changeColsCost(len(cost), columns, cost))

    def fix(self, column: int, value: float | None) -> None:
        """Fix an unknown at a value; None removes the fixing (any value from 0)."""
        ends = (0.0, kHighsInf) if value is None else (value, value)
        _check(self._highs.changeColBounds(column, *ends))

    def hold(self, rows: Sequence[int] | Integers, *, held: bool) -> None:
        """Switch some of the first (inequality) rows on or off."""
        for row in rows:
            _check(self._highs.changeRowBounds(int(row), -kHighsInf, 0.0 if held else kHighsInf))

    def solve(self) -> ProgramSolution | None:
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
            return ProgramSolution(-np.inf, np.zeros(self._width), np.zeros(len(self._least)))
        if status != HighsModelStatus.kOptimal:
            name = highs.modelStatusToString(status)
            raise ReleaseError(f"a linear program was not solved: {name}")
        made = highs.getSolution()
        value = float(highs.getInfo().objective_function_value)
        point, duals = np.asarray(made.col_value), np.asarray(made.row_dual)
        return ProgramSolution(value, point[: self._width], duals)


def _check(status: HighsStatus) -> None:
    if status == HighsStatus.kError:
        raise ReleaseError("HiGHS refused a linear program")
