"""Linear equations that relate an aggregate to a map's cells, and the misfit of a map.

target = design @ shares, with one equation for each bit of each cohort, or one for each cell if
every cell has a separate bit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import chdtrc

from decoder.density.field_prior import RESERVED_PRECISION
from decoder.errors import DecodeError
from decoder.model.counts import design_matrix, unbiased
from decoder.model.noise import BitNoise
from decoder.numerics.bit_tensor import Positions
from decoder.typing import Floats, Indices
from rappor_core.aggregate import Aggregate
from rappor_core.params import RapporParams

BLOCKS = 15  # blocks of cells whose sums test a map
MIN_RESERVED = 1e-6  # a share of 0 has no logarithm
UNLIKELY = 1e-6  # a chi-square test rejects below this p-value
_NO_INFORMATION = 1e-9  # smaller eigenvalues, relative to the largest, count as 0


@dataclass(frozen=True)
class LevelEquations:
    """The equations target = design @ shares of one level, with the noise of each row."""

    design: Any  # Sparse, (rows, n cells of the finest level)
    target: Floats  # Debiased bit shares, (rows,)
    reports: Floats  # The number of reports behind each row
    noise: BitNoise
    repetition: float  # rho = sum r^2 / sum r over devices with r reports each
    symbols: int = 0  # g if a report is one of g symbols, 0 if it consists of bits

    @property
    def freedom(self) -> int:
        """The number of independent rows; a cohort's symbol counts sum to its number of reports."""
        rows = int((self.reports > 0).sum())
        return rows - rows // self.symbols if self.symbols else rows

    def precision(self, shares: Floats) -> Floats:
        """Return the inverse variance of each row (rows,) if the cells have shares `shares` (n,).

        The reported symbols of a cohort are multinomial. diag(1/s) is a generalized inverse of
        their covariance, so a symbol's row has weight 1/s where a bit's has 1/(s (1 - s))."""
        bits = np.clip(self.design @ shares, 0.0, 1.0)
        variance = self.noise.mechanism_variance(bits, self.repetition)
        variance = variance + self.repetition * bits * (1 - bits)
        if self.symbols:
            ones = self.noise.p_star + self.noise.gap * bits
            variance = variance / np.maximum(1 - ones, 1e-6)
        return np.asarray(self.reports / variance)


WindowReadings = Sequence[Sequence[LevelEquations]]  # one reading per window and level


def read_aggregate(
    aggregate: Aggregate, design: Any, repetition: float, *, keep_empty: bool = False
) -> LevelEquations:
    """Build the equations for an aggregate.

    Args:
        aggregate: The aggregate of a level.
        design: The design matrix of all its rows (`design_of`).
        repetition: The `repetition` of `LevelEquations`.
        keep_empty: Whether to keep the rows of cohorts without reports, with precision 0.

    Raises:
        DecodeError: There are no reports.
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
    """Return the sparse design matrix X (m*k, n); (k, n) if every value has a separate bit.

    Args:
        positions: The index tensor (M, m, h) of the values of a level.
        params: The parameters of its reports.
        cells: For each cell of the finest level, the index of the value that contains it, (n,).
    """
    if params.scheme.own_bits:
        positions = positions[:, :1]
    return design_matrix(positions, params.num_bits)[:, cells].tocsr()


class Misfit:
    """The weighted equations of a window, with precisions computed at the map `shares` (n,)."""

    def __init__(self, readings: Sequence[LevelEquations], shares: Floats) -> None:
        self.size = len(shares)
        self._rows = [
            (reading.design, reading.target, reading.precision(shares)) for reading in readings
        ]
        self.freedom = sum(reading.freedom for reading in readings)

    def at(self, shares: Floats) -> tuple[float, Floats]:
        """Return half the weighted sum of squared residuals and its gradient by the shares (n,)."""
        value, slope = 0.0, np.zeros(self.size)
        for design, target, weight in self._rows:
            residual = design @ shares - target
            weighted = weight * residual
            value += 0.5 * float(residual @ weighted)
            slope += weighted @ design
        return value, slope

    def own_information(self) -> Floats:
        """Return the diagonal (n,) of the information about the shares, for designs of 0 and 1."""
        return np.asarray(sum(weight @ design for design, _, weight in self._rows))

    def information(self) -> Floats:
        """Return the information about the shares, (n, n)."""
        parts = [design.T @ design.multiply(w[:, None]) for design, _, w in self._rows]
        return np.asarray(sum(part.toarray() for part in parts))

    def reserved_shares(self, shares: Floats, reserved: int) -> tuple[Floats, Floats]:
        """Estimate the r reserved values' shares by weighted least squares.

        Returns the shares (r,) and the inverse of their covariance (r, r). The last `reserved`
        entries of `shares` (n,) are used only if the equations contain no information about them.
        """
        cells = self.size - reserved
        inside = np.append(shares[:cells] / shares[:cells].sum(), np.zeros(reserved))
        products, information = np.zeros(reserved), np.zeros((reserved, reserved))
        for design, target, weight in self._rows:
            base = design @ inside
            toward = design[:, cells:].toarray() - base[:, None]
            weighted = (weight[:, None] * toward).T
            products += weighted @ (target - base)
            information += weighted @ toward
        if (np.diag(information) <= 0).any():
            return shares[cells:].copy(), np.zeros((reserved, reserved))
        return _within_bounds(information, products), information


def _within_bounds(information: Floats, products: Floats) -> Floats:
    """Return the shares x (r,), one or two, that minimize x' information x / 2 - x' products.

    Each share, and the remainder for the cells, is at least MIN_RESERVED."""
    most = 1 - MIN_RESERVED
    if len(products) == 1:
        return np.asarray(np.clip(products / information[0], MIN_RESERVED, most))
    free = np.asarray(np.linalg.lstsq(information, products, rcond=None)[0], dtype=np.float64)
    if free.min() >= MIN_RESERVED and free.sum() <= most:
        return free
    fixed = MIN_RESERVED * np.eye(2)
    lines = [(fixed[0], np.eye(2)[1]), (fixed[1], np.eye(2)[0])]  # one share is at its minimum
    lines.append((np.array([0.0, most]), np.array([1.0, -1.0])))  # or the cells' remainder is
    edges = []
    for start, way in lines:
        curvature = max(float(way @ information @ way), 1e-300)
        step = float(way @ (products - information @ start)) / curvature
        edges.append(start + way * np.clip(step, MIN_RESERVED, most - MIN_RESERVED))
    return min(edges, key=lambda x: float(x @ information @ x / 2 - x @ products))


def with_reserved(shares: Floats, reserved: Floats) -> Floats:
    """Set the last r of the shares (n,) to `reserved` (r,); scale the others to make the sum 1."""
    cells = shares[: len(shares) - len(reserved)]
    return np.append(cells * ((1 - reserved.sum()) / cells.sum()), reserved)


def own_reserved(misfit: Misfit, near: Floats, reserved: int) -> Floats:
    """Return the map `near` (n,) with reserved shares re-estimated from the equations."""
    if not reserved:
        return near
    return with_reserved(near, misfit.reserved_shares(near, reserved)[0])


def even_map(readings: Sequence[LevelEquations], size: int, reserved: int) -> Floats:
    """Return a map (n,) in which all cells are equal; reserved shares come from the equations."""
    shares = np.full(size, 1 / size)
    for _ in range(2 if reserved else 0):  # the weights depend on the reserved shares
        shares = own_reserved(Misfit(readings, shares), shares, reserved)
    return shares


def even_evidence(misfit: Misfit, even: Floats, reserved: int) -> float:
    """Return the log evidence of the map `even`, up to the same constant as `log_evidence`."""
    value, _ = misfit.at(even)
    if not reserved:
        return -value
    shares, information = even[-reserved:], misfit.reserved_shares(even, reserved)[1]
    away = np.log(shares) - np.log(even[0])
    slopes = np.diag(shares) - np.outer(shares, shares)  # of the shares in their logarithms
    curvatures = np.linalg.eigvalsh(slopes @ information @ slopes) + RESERVED_PRECISION
    height = 0.5 * np.log(RESERVED_PRECISION / curvatures).sum()
    square = sum(float(log_ratio) ** 2 for log_ratio in away)
    return float(height - value - 0.5 * RESERVED_PRECISION * square)


@dataclass(frozen=True)
class MapCheck:
    """A chi-square test that compares a map with unbiased estimates of coarse sums.

    The sums are each reserved value and 15 blocks of cells. The map was fitted to the same reports,
    so the p-value is somewhat too large."""

    chi_square: float
    freedom: int  # The degrees of freedom of `chi_square`
    misfit: float  # The chi-square of all rows of the reports
    misfit_freedom: int
    dispersion: float = 1.0  # The rows' variance, relative to the declared variance

    @property
    def p_value(self) -> float:
        """The p-value of the test of the coarse sums, in [0, 1]."""
        return float(chdtrc(self.freedom, self.chi_square / self.dispersion))

    @property
    def agrees(self) -> bool:
        """Whether the tests of coarse sums and of all rows both have p-values above 1e-6."""
        rows = chdtrc(self.misfit_freedom, self.misfit / self.dispersion)
        return self.p_value > UNLIKELY and float(rows) > UNLIKELY


def check_map(readings: Sequence[LevelEquations], shares: Floats, reserved: int) -> MapCheck:
    """Test whether a map (n,) agrees with the equations of its window.

    If it does not, and there are more rows than cells, the noise is measured by a fit without a
    prior, because reports may vary more than declared."""
    roots = [np.sqrt(reading.precision(shares)) for reading in readings]
    pairs = list(zip(roots, readings, strict=True))
    residual = np.concatenate([root * (part.target - part.design @ shares) for root, part in pairs])
    design = sparse.vstack([sparse.diags_array(root) @ part.design for root, part in pairs]).tocsr()
    # moves (n, blocks + reserved) of mass, evenly from all cells to the cells of a block. They
    # ignore the shape of the map, which was fitted to the same reports: along it, any shrinkage by
    # the prior would look like a disagreement
    cells = len(shares) - reserved
    blocks = min(BLOCKS, cells)
    block = np.append(np.arange(cells) * blocks // max(cells, 1), blocks + np.arange(reserved))
    inside = (block[:, None] == np.arange(block[-1] + 1)).astype(np.float64)
    even = np.append(np.full(cells, 1 / max(cells, 1)), np.zeros(reserved))
    profiles = design @ (inside / inside.sum(axis=0) - even[:, None])
    values, vectors = np.linalg.eigh(profiles.T @ profiles)
    large = values > _NO_INFORMATION * values[-1]
    scores = (vectors[:, large].T @ (profiles.T @ residual)) / np.sqrt(values[large])
    rows = sum(reading.freedom for reading in readings)
    check = MapCheck(float(scores @ scores), int(large.sum()), float(residual @ residual), rows)
    free = rows - len(shares)
    if check.agrees or free <= 0:
        return check
    rest = residual - design @ np.linalg.lstsq(design.toarray(), residual, rcond=None)[0]
    return replace(check, dispersion=max(1.0, float(rest @ rest) / free))
