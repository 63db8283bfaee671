"""`JointTable`: the shares of all pairs of values, with margins, conditional shares and a test."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import helmert
from scipy.sparse.linalg import LinearOperator, eigsh
from scipy.special import ndtri

from decoder.decoded_window import DecodedWindow, window_fields
from decoder.errors import ConvergenceError
from decoder.inference.intervals import ShareTable, fieller
from decoder.numerics.simplex import project_simplex
from decoder.typing import Flags, Floats
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.pair_kind import Pair

MAX_CELLS = 4_000  # the covariance of all cells has as many squares
LEAST = 1e-300
MIN_MARGIN = 1e-3  # of an even margin: where it is 0, a prior needs some width
TAUS = np.concatenate([[0.0], np.geomspace(1e-12, 1e4, 801)])  # 5 % apart


class Independence(NamedTuple):
    """A test of whether the two sides are independent.

    statistic: chi-squared with `freedom` degrees under independence.  level: of the decision.
    """

    statistic: float
    freedom: int
    p_value: float
    level: float

    @property
    def rejected(self) -> bool:
        """Whether the test rejects independence at the level."""
        return self.p_value <= self.level


@dataclass(frozen=True)
class JointTable(DecodedWindow):
    """Shares of reports that hold each pair of values.

    of: the names of the two sides.
    rows, columns: the values of the sides.
    estimate: unbiased, (M1, M2); may be negative.  covariance: of the cells, row by row, or None
        where only variances were computed.  variances: its diagonal, (M1, M2).
    fitted: the nearest table without negative shares, of sum 1.
    shrunk: the estimate drawn towards the product of the margins as far as the evidence is weak.
        No interval is of it.
    independence: the test.  level: of intervals, such as .95.
    """

    of: tuple[str, str]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    estimate: Floats
    covariance: Floats | None
    variances: Floats
    fitted: Floats
    shrunk: Floats
    independence: Independence
    level: float
    warnings: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return len(self.rows), len(self.columns)

    @property
    def quantile(self) -> float:
        """Half width of the intervals, in standard errors."""
        return float(ndtri(0.5 + self.level / 2))

    @property
    def cells(self) -> ShareTable:
        """Shares of all cells, with intervals."""
        return self._shares(self.estimate, np.sqrt(self.variances))

    @property
    def detected(self) -> Flags:
        """Which cells are detected: their interval begins above 0, (M1, M2)."""
        return np.asarray(self.cells.low > 0)

    def margin(self, side: int) -> ShareTable | None:
        """Shares of the values of a side (0: rows, 1: columns); None without the covariance."""
        if self.covariance is None:
            return None
        sums = side_sums(self.shape, side)
        estimate = sums @ self.estimate.ravel()
        errors = np.sqrt(np.maximum(np.einsum("ia,ab,ib->i", sums, self.covariance, sums), 0.0))
        return self._shares(estimate, errors)

    def conditional(self, given: int) -> ShareTable | None:
        """Share of each cell among the reports with the value of side `given`.

        Intervals are Fieller's, exact for a ratio of two normal estimates: from 0 to 1 where the
        share of the given value is itself not detected. None without the covariance.
        """
        if self.covariance is None:
            return None
        sums = side_sums(self.shape, given)
        whole = sums @ self.estimate.ravel()
        across = sums @ self.covariance
        place = np.indices(self.shape)[given].ravel()
        found = fieller(
            (self.estimate.ravel(), self.variances.ravel()),
            (whole[place], np.einsum("ia,ia->i", across, sums)[place]),
            across[place, np.arange(self.estimate.size)],
            self.quantile,
        )
        parts = (found.estimate, found.std_error, *np.clip([found.low, found.high], 0.0, 1.0))
        return ShareTable(*(part.reshape(self.shape) for part in parts))

    def _shares(self, estimate: Floats, errors: Floats) -> ShareTable:
        reach = self.quantile * errors
        low, high = np.clip(estimate - reach, 0.0, 1.0), np.clip(estimate + reach, 0.0, 1.0)
        return ShareTable(estimate, errors, low, high)


def side_sums(shape: tuple[int, int], side: int) -> Floats:
    """Matrix (values of the side, cells) that sums cells to the margin of a side."""
    place = np.indices(shape)[side].ravel()
    return np.asarray((place[None, :] == np.arange(shape[side])[:, None]).astype(np.float64))


def margins(table: Floats) -> tuple[Floats, Floats]:
    """The margins of both sides of a table (M1, M2), projected on the simplex."""
    return project_simplex(table.sum(axis=1)), project_simplex(table.sum(axis=0))


def joint_table(
    aggregate: Aggregate,
    pair: Pair,
    estimate: Floats,
    covariance: Floats,
    curvature: Floats,
    independence: Independence,
    level: float,
) -> JointTable:
    """A table from an unbiased estimate (M1, M2) and its covariance (M1 M2, M1 M2).

    curvature: of the misfit in the cells.
    """
    table = JointTable(
        **window_fields(aggregate),
        of=pair.of,
        rows=pair.labels(0),
        columns=pair.labels(1),
        estimate=estimate,
        covariance=covariance,
        variances=np.maximum(np.diag(covariance), 0.0).reshape(estimate.shape),
        fitted=nearest_table(estimate, curvature),
        shrunk=shrunk_table(estimate, covariance),
        independence=independence,
        level=level,
    )
    return replace(table, warnings=tuple(_warnings(table)))


def _warnings(table: JointTable) -> list[str]:
    """What a reader of a table should know."""
    warnings, independence = [], table.independence
    if not independence.rejected:
        warnings.append(
            f"independence is not rejected (p = {independence.p_value:.3g}): differences between "
            "rows may be noise; use the shrunk table (no interval is of it), a longer window, "
            "shorter lists or a larger epsilon"
        )
    found = int(table.detected.sum())
    if found * 4 < table.detected.size:
        warnings.append(f"{found} of {table.detected.size:,} cells are detected")
    return warnings


def nearest_table(estimate: Floats, information: Floats, steps: int = 300) -> Floats:
    """The table without negative shares, of sum 1, nearest to an estimate: argmin (q-p)' H (q-p).

    estimate: (M1, M2).  information: H, (M1 M2, M1 M2), symmetric, without a weight on the sum,
    which is 1 here.  FISTA with restarts (Beck, Teboulle 2009; O'Donoghue, Candes 2015), until no
    share moves by more than 1e-9 of the sum. Tables differ by changes of sum 0 alone, so a step is
    as long as the curvature of those allows: that of the sum is v0^2 times as large, v0 the noise
    of a bit, and would leave strong noise far from the nearest table. SciPy's nnls gives the same
    table, and takes a minute for 4,000 cells.

    Raises ConvergenceError.
    """
    target = estimate.ravel()
    bound = 1.01 * _largest_of_changes(information)
    found = ahead = project_simplex(target)
    momentum = 1.0
    for _ in range(steps):
        moved = project_simplex(ahead - information @ (ahead - target) / bound)
        if float((ahead - moved) @ (moved - found)) > 0:
            momentum = 1.0
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = moved + (momentum - 1) / following * (moved - found)
        change = float(np.abs(moved - found).max())
        found, momentum = moved, following
        if change < 1e-9 / found.size:
            return np.asarray(found.reshape(estimate.shape))
    raise ConvergenceError(f"the nearest table was not reached in {steps} steps")


def _largest_of_changes(information: Floats) -> float:
    """The largest curvature along changes of sum 0."""
    size = len(information)

    def centred(change: Floats) -> Floats:
        moved = information @ (change - change.mean())
        return np.asarray(moved - moved.mean())

    if size == 1:
        return float(information[0, 0])  # there are no changes
    start = np.arange(size) - (size - 1) / 2 + 0.1 * (-1.0) ** np.arange(size)
    operator = LinearOperator((size, size), matvec=centred, dtype=np.float64)
    (largest,) = eigsh(operator, k=1, v0=start, return_eigenvectors=False, tol=1e-3)
    return float(largest)


def shrunk_table(estimate: Floats, covariance: Floats) -> Floats:
    """The empirical Bayes table: each cell's posterior mean, drawn towards the product of the
    margins.

    What the cells depart by from the product is taken to be normal around 0, with variances of tau
    times the product; tau is the most likely one, given the part of the departures that the
    margins leave free.  estimate: (M1, M2).  covariance: of its cells, (M1 M2, M1 M2).
    """
    both = margins(estimate)
    product = np.outer(*both)
    (rows, back_rows), (columns, back_columns) = (_unit_contrasts(one) for one in both)
    half = _contrasted(covariance, rows, columns)
    noise, axes = np.linalg.eigh(_contrasted(half.T, rows, columns))
    noise = np.maximum(noise, LEAST)
    seen = rows.T @ (estimate - product) @ columns
    scores = axes.T @ seen.ravel()
    spreads = noise + TAUS[:, None]  # of scores that are normal around 0
    tau = float(TAUS[np.argmin((np.log(spreads) + scores**2 / spreads).sum(axis=1))])
    kept = (axes @ (tau / (noise + tau) * scores)).reshape(seen.shape)
    departed = product + back_rows @ kept @ back_columns.T
    return np.asarray(project_simplex(departed.ravel()).reshape(estimate.shape))


def _unit_contrasts(margin: Floats) -> tuple[Floats, Floats]:
    """Contrasts of variance 1 where a side's departures have variances of its margin (M,).

    Returns the matrix W of those contrasts, (M, M - 1), and the one, of the same shape, that takes
    W'd back to the departures d of sum 0.
    """
    basis = helmert(len(margin)).T
    width = np.maximum(margin, MIN_MARGIN / len(margin))
    root = np.linalg.cholesky((basis.T * width) @ basis)
    return np.linalg.solve(root, basis.T).T, basis @ root


def _contrasted(cells: Floats, rows: Floats, columns: Floats) -> Floats:
    """(rows kron columns)' cells, without the Kronecker product.  cells: (M1 M2, n)."""
    cube = cells.reshape(len(rows), len(columns), -1)
    cube = columns.T @ np.tensordot(rows.T, cube, 1)
    return np.asarray(cube.reshape(rows.shape[1] * columns.shape[1], cells.shape[1]))
