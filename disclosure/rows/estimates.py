"""Decoded estimates of cells with their covariance, the source of synthetic rows.

Reports were randomized on the devices, so computations on their decoding cost no additional
epsilon. The remaining issue is honesty: rows drawn from a single table of estimates look as if the
table were exact. `draw_shares` therefore draws several tables, each as plausible as the estimates
and their covariance allow, and each results in one set of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

import numpy as np

from disclosure.errors import TableError
from disclosure.release.tables import CellTable
from disclosure.typing import Booleans, Floats, Integers

REST = "*"  # the value in every column of the cell for all that is not shown
_LARGEST = 1e6  # estimate of a share, or its error; larger ones make sums too inexact


@dataclass(frozen=True)
class DecodedCells:
    """Unbiased estimates of the shares of cells that cover everything.

    Raises TableError if lengths differ, a cell is repeated, or a number is not finite."""

    columns: tuple[str, ...]  # Names
    cells: tuple[tuple[str, ...], ...]  # The value of each column, (M,) tuples
    estimate: Floats  # (M,), may be negative
    covariance: Floats  # (M, M), or (M,) variances if estimates are treated as uncorrelated
    num_reports: int  # Number of decoded reports
    first_day: date | None = None
    last_day: date | None = None
    # (M,) groups of cells with a known sum, such as slots; None: all sum to 1
    groups: Integers | None = None
    group_reports: tuple[int, ...] | None = None  # Reports of each group, if known
    metrics: tuple[str, ...] = ()  # Metrics of the estimates; if empty, `columns`
    detected: Booleans | None = None  # (M,) tested to be above zero; None if unknown or pooled
    low: Floats | None = None  # (M,) decoded lower ends, as shares of the group

    def __post_init__(self) -> None:
        size = len(self.cells)
        fits = self.estimate.shape == (size,) and self.covariance.shape in ((size,), (size, size))
        if not fits or not size or any(len(cell) != len(self.columns) for cell in self.cells):
            raise TableError(
                f"{size} cells of {len(self.columns)} columns do not match estimates "
                f"{self.estimate.shape} and covariance {self.covariance.shape}"
            )
        if any(part is not None and part.shape != (size,) for part in (self.detected, self.low)):
            raise TableError(f"`detected` and `low` do not have {size} cells")
        if len(set(self.cells)) < size or len(set(self.columns)) < len(self.columns):
            raise TableError("a cell or a column is named twice")
        if not (np.isfinite(self.estimate).all() and np.isfinite(self.covariance).all()):
            raise TableError("an estimate or a covariance is not finite")
        if abs(self.estimate).max() > _LARGEST or abs(self.covariance).max() > _LARGEST**2:
            raise TableError(f"an estimate or its error is above {_LARGEST:g}: they are not shares")
        if self.num_reports < 1 or (self.variances < 0).any():
            raise TableError(f"{self.num_reports} reports, or a variance below 0")

    def described(self) -> dict[str, object]:
        """Return the entries of synthesis.json that describe the decoding."""
        return {
            "columns": list(self.columns),
            "reports": self.num_reports,
            "first_day": str(self.first_day),
            "last_day": str(self.last_day),
        }

    @property
    def variances(self) -> Floats:
        """The variance of each estimate, (M,)."""
        if self.covariance.ndim == 1:
            return self.covariance
        return np.diag(self.covariance).copy()

    @property
    def reports_by_group(self) -> tuple[int, ...]:
        """The report count of each group; the total if unknown or without groups."""
        if self.groups is None or self.group_reports is None:
            return (self.num_reports,)
        return self.group_reports

    def without_small(self, alone: Booleans) -> DecodedCells:
        """Return the estimates, in which cells that may not be shown separately are pooled.

        The pool is one cell with `*` in every column, or one cell per group, which keeps its first
        column. Rows must not show what a release suppresses. A single small cell would only be
        renamed, so the next smallest cell in its group is pooled with it. The pool is selected by
        the estimates, so it is too small on average.

        Args:
            alone: The cells that may be shown, (M,), by the publisher's rule.

        Returns:
            The remaining cells and the pools, without `detected` and `low`.

        Raises:
            TableError: A value is `*`, or nothing remains.
        """
        named = alone.copy()
        groups = np.zeros(len(named), dtype=np.int64) if self.groups is None else self.groups
        for group in np.unique(groups):
            members = np.flatnonzero((groups == group) & alone)
            if len(members) and (groups == group).sum() == len(members) + 1:
                named[members[self.estimate[members].argmin()]] = False
        if not named.any():
            raise TableError("no cell may be shown separately")
        if any(REST in cell for cell in self.cells):
            raise TableError(f"a value is {REST!r}, which is reserved for cells that are not shown")
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
        """Drop the groups of few reports, such as slots, and round the reports of the others down.

        The remaining groups are weighted by their rounded reports.

        Args:
            enough: Whether each group of `reports_by_group` remains.
            step: The step to whose multiples reports are rounded down.

        Raises:
            TableError: Nothing remains, or no report after rounding.
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
    """Return estimates of cells by slot, for rows of one device in one slot.

    No device is followed across slots. A slot is weighted by its number of reports, which is known.
    Errors of cells are treated as uncorrelated. `maps` have all cells, each of one slot (a
    stratum). Raises TableError for no maps, a repeated slot, and windows that begin on other days.
    """
    if not maps:
        raise TableError("no maps")
    first, *others = {density.first_day for density in maps}
    if others:
        raise TableError("the slots have windows that begin on different days")
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
    """Draw tables of shares, (num_sets, M), each from N(estimate, covariance), then projected.

    Shares become nonnegative and get the known sums. The projection minimizes squared differences
    over variances, so precise shares move less. Raises TableError if num_sets is below 1."""
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
    """Project drawn shares (M,) to the nearest valid shares, each group with its known sum."""
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
    """Return the nearest shares (n,) that sum to `total` (> 0).

    They are argmin sum (q - values)^2 / variances over q >= 0. The solution is q = max(values - t
    variances, 0) for one t, found among the points where an entry becomes 0."""
    ratios = values / variances
    order = np.argsort(-ratios)
    ahead = (np.cumsum(values[order]) - total) / np.cumsum(variances[order])
    last = int(np.flatnonzero(ratios[order] > ahead)[-1])
    nearest: Floats = np.maximum(values - ahead[last] * variances, 0.0)
    return nearest
