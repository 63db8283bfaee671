"""Decoded estimates of cells, with their covariance: what synthetic rows of a decoding come from.

Reports were randomized on the devices, so that whatever is computed of their decoding costs no
further epsilon. What is not free is honesty: rows that are drawn from one table of estimates look
as if it were exact. `draw_shares` therefore draws several tables, each as likely as the estimates
and their covariance allow, and the rows of each are one set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

import numpy as np

from disclosure.errors import TableError
from disclosure.release.tables import CellTable
from disclosure.typing import Booleans, Floats, Integers

REST = "*"  # in every column of the cell that holds what is not shown
_LARGEST = 1e6  # estimate of a share, or its error: beyond, sums lose what they are of


@dataclass(frozen=True)
class DecodedCells:
    """Unbiased estimates of the shares of cells that together are everything.

    columns: names.  cells: the value of each column, (M,) tuples.  estimate: (M,), may be negative.
    covariance: (M, M), or (M,) variances where estimates are taken as uncorrelated.
    num_reports: that they were decoded from.  first_day, last_day: of the reports, where known.
    groups: (M,) of cells whose sum is known, as those of a slot; None: only that of all is, 1.
    group_reports: of each group, where they are known.  metrics: that it is of; none: `columns`.
    detected: (M,) tested to be above zero.  low: (M,) lower ends of the decoded intervals, each a
    share of its group, as its table shows it.  None where they are not known, and of pools.

    Raises TableError for lengths that differ, a cell twice, and numbers that are not finite.
    """

    columns: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    estimate: Floats
    covariance: Floats
    num_reports: int
    first_day: date | None = None
    last_day: date | None = None
    groups: Integers | None = None
    group_reports: tuple[int, ...] | None = None
    metrics: tuple[str, ...] = ()
    detected: Booleans | None = None
    low: Floats | None = None

    def __post_init__(self) -> None:
        """Check."""
        size = len(self.cells)
        fits = self.estimate.shape == (size,) and self.covariance.shape in ((size,), (size, size))
        if not fits or not size or any(len(cell) != len(self.columns) for cell in self.cells):
            raise TableError(
                f"{size} cells of {len(self.columns)} columns, estimates {self.estimate.shape} and "
                f"covariance {self.covariance.shape} do not go together"
            )
        if any(part is not None and part.shape != (size,) for part in (self.detected, self.low)):
            raise TableError(f"`detected` and `low` are not of {size} cells")
        if len(set(self.cells)) < size or len(set(self.columns)) < len(self.columns):
            raise TableError("a cell or a column is named twice")
        if not (np.isfinite(self.estimate).all() and np.isfinite(self.covariance).all()):
            raise TableError("an estimate or a covariance is not finite")
        if abs(self.estimate).max() > _LARGEST or abs(self.covariance).max() > _LARGEST**2:
            raise TableError(f"an estimate or its error is above {_LARGEST:g}: these are no shares")
        if self.num_reports < 1 or (self.variances < 0).any():
            raise TableError(f"{self.num_reports} reports, or a variance below 0")

    @property
    def variances(self) -> Floats:
        """Variance of each estimate, (M,)."""
        if self.covariance.ndim == 1:
            return self.covariance
        return np.diag(self.covariance).copy()

    @property
    def reports_by_group(self) -> tuple[int, ...]:
        """Number of reports of each group; of all where there are none, or theirs is not known."""
        if self.groups is None or self.group_reports is None:
            return (self.num_reports,)
        return self.group_reports

    def without_small(self, alone: Booleans) -> DecodedCells:
        """Pool the cells that may not be shown separately.

        The pool is one cell with `*` in every column, or one of each group, whose first column
        stays: what a release suppresses, rows must not show. One small cell alone would be shown
        with its number, under another name: it takes the next smallest of its group with it. The
        pool is chosen by looking at the estimates, so that it is too small on average.

        Args:
            alone: the cells that may, (M,), by the rule of whoever publishes.

        Returns:
            The cells that remain, and the pools, without `detected` and `low`.

        Raises:
            TableError: a value is `*` itself, or nothing remains.
        """
        named = alone.copy()
        groups = np.zeros(len(named), dtype=np.int64) if self.groups is None else self.groups
        for group in np.unique(groups):
            members = np.flatnonzero((groups == group) & alone)
            if len(members) and (groups == group).sum() == len(members) + 1:
                named[members[self.estimate[members].argmin()]] = False
        if not named.any():
            raise TableError("no cell remains that may be shown separately")
        if any(REST in cell for cell in self.cells):
            raise TableError(f"a value is {REST!r}, which represents what is not shown")
        pool = (REST,) * (len(self.columns) - 1)
        names = [
            cell if keep else ((REST if self.groups is None else cell[0]), *pool)
            for cell, keep in zip(self.cells, named.tolist(), strict=True)
        ]
        cells = tuple(dict.fromkeys(names))
        index = {cell: number for number, cell in enumerate(cells)}
        place = np.array([index[name] for name in names])
        sums = (place == np.arange(len(cells))[:, None]).astype(float)
        full = self.covariance if self.covariance.ndim == 2 else np.diag(self.covariance)
        covariance = sums @ full @ sums.T
        return replace(
            self,
            cells=cells,
            estimate=sums @ self.estimate,
            covariance=covariance if self.covariance.ndim == 2 else np.diag(covariance).copy(),
            groups=None if self.groups is None else self.groups[np.argmax(sums, axis=1)],
            detected=None,
            low=None,
        )

    def without_few(self, enough: Booleans, step: int) -> DecodedCells:
        """Leave out the groups of few reports, as slots, and round the reports of others down.

        What remains weighs as its rounded reports.

        Args:
            enough: the groups that remain, one of `reports_by_group` each.
            step: reports are rounded down to a multiple of it.

        Raises:
            TableError: nothing remains, or no report after rounding.
        """
        exact = np.array(self.reports_by_group)
        rounded = exact // step * step
        if not (rounded[enough] > 0).any():
            raise TableError(f"no group has enough reports: {', '.join(map(str, exact.tolist()))}")
        if self.groups is None or self.group_reports is None:
            return replace(self, num_reports=int(rounded[0]))
        total = int(rounded[enough].sum())
        used = enough[self.groups]
        factors = (rounded / exact * self.num_reports / total)[self.groups][used]
        variances = self.covariance.ndim == 1
        covariance = self.covariance[used] if variances else self.covariance[np.ix_(used, used)]
        return replace(
            self,
            cells=tuple(cell for cell, keep in zip(self.cells, used.tolist(), strict=True) if keep),
            estimate=self.estimate[used] * factors,
            covariance=covariance * (factors**2 if variances else np.outer(factors, factors)),
            num_reports=total,
            groups=(np.cumsum(enough) - 1)[self.groups[used]],
            group_reports=tuple(rounded[enough].tolist()),
            detected=None if self.detected is None else self.detected[used],
            low=None if self.low is None else self.low[used],
        )


def slot_estimates(maps: Sequence[CellTable]) -> DecodedCells:
    """Estimates of cells by slot: a row is one device in one slot, and no device is followed
    over slots.

    A slot weighs as its number of reports, which is known. Errors of cells are taken as
    uncorrelated. maps: of all cells, each of one slot, a stratum.

    Raises TableError for no maps, a slot twice, and windows that begin on other days.
    """
    if not maps:
        raise TableError("no maps")
    first, *others = {density.first_day for density in maps}
    if others:
        raise TableError("the slots are of windows that begin on other days")
    total = sum(density.num_reports for density in maps)
    parts = [density.num_reports / total for density in maps]
    return DecodedCells(
        ("slot", "cell"),
        tuple((dict(density.strata)["slot"], cell) for density in maps for cell in density.cells),
        np.concatenate([p * density.estimate for p, density in zip(parts, maps, strict=True)]),
        np.concatenate([p * density.std_error for p, density in zip(parts, maps, strict=True)])
        ** 2,
        total,
        first,
        maps[0].last_day,
        np.repeat(np.arange(len(maps)), [len(density.cells) for density in maps]),
        tuple(density.num_reports for density in maps),
        tuple(dict.fromkeys(density.metric for density in maps)),
        np.concatenate([density.detected for density in maps]),
        np.concatenate([density.low for density in maps]),
    )


def draw_shares(
    estimates: DecodedCells, num_sets: int, rng: np.random.Generator | None = None
) -> Floats:
    """Draw tables of shares, (num_sets, M): each N(estimate, covariance), then made a law.

    A law has no negative shares, and the sums that are known. The nearest one is taken, by squared
    differences over variances: what is known well moves less.

    Raises TableError for fewer than one set.
    """
    if num_sets < 1:
        raise TableError(f"{num_sets} sets: 1 or more are needed")
    source = rng or np.random.default_rng()
    noise = source.normal(size=(num_sets, len(estimates.cells)))
    if estimates.covariance.ndim == 1:
        drawn = estimates.estimate + noise * np.sqrt(estimates.covariance)
    else:
        values, vectors = np.linalg.eigh((estimates.covariance + estimates.covariance.T) / 2)
        drawn = estimates.estimate + (noise * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return np.array([_nearest_law(row, estimates) for row in drawn])


def _nearest_law(drawn: Floats, estimates: DecodedCells) -> Floats:
    """Return the law nearest to drawn shares (M,), by variances; each group with its sum."""
    variances = np.maximum(estimates.variances, np.finfo(float).tiny)
    if estimates.groups is None:
        return nearest_shares(drawn, variances, 1.0)
    shares = np.zeros(len(drawn))
    for group in np.unique(estimates.groups):
        of_group = estimates.groups == group
        total = float(estimates.estimate[of_group].sum())
        shares[of_group] = nearest_shares(drawn[of_group], variances[of_group], total)
    law: Floats = shares / shares.sum()
    return law


def nearest_shares(values: Floats, variances: Floats, total: float) -> Floats:
    """Return the shares nearest to estimates: argmin sum (q - values)^2 / variances over q >= 0 of
    sum `total`, above 0: (n,).

    q = max(values - t variances, 0) for one t, found among the points where an entry becomes 0.
    """
    ratios = values / variances
    order = np.argsort(-ratios)
    ahead = (np.cumsum(values[order]) - total) / np.cumsum(variances[order])
    last = int(np.flatnonzero(ratios[order] > ahead)[-1])
    nearest: Floats = np.maximum(values - ahead[last] * variances, 0.0)
    return nearest
