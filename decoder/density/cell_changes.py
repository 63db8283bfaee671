"""Changes of single cells of a map between windows of one slot: each window against the others,
or two windows.

Shares are those among people who are in a cell. Each contrast of windows is estimated by itself
(`comparison.cell_contrasts`), about the map that all windows share.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import inv
from scipy.special import ndtri

from decoder.comparison.cell_contrasts import RandomCells, contrast_cells
from decoder.density.field_prior import Graph, Prior
from decoder.density.space_time_changes import patterns
from decoder.density.space_time_modes import Deviations, modes_of
from decoder.typing import Flags, Floats

_ALPHA = 0.05  # family-wise, over all cells and patterns of a series
MOST_PAIRED = 14  # windows of a series: 91 pairs; of a longer one each is compared with the first
OWN = 2.0  # standard errors by which a window itself must differ for its change to be detected


class WindowChanges(NamedTuple):
    """Changes of the cells of one window, (n,) each, with standard errors.

    from_others: less the mean of the other windows; detected: a change beyond the Bonferroni
    limit of all cells and windows.  since: less each earlier window, the first one's change first;
    of a series of more than 14 windows less the first alone.
    """

    from_others: tuple[Floats, Floats]
    detected: Flags
    since: tuple[tuple[Floats, Floats], ...]


def series_changes(
    deviations: Deviations, laplacian: Any | None, repeated: float
) -> list[WindowChanges]:
    """Changes of each of two or more windows against the others. Arguments as in
    `SeriesContrasts.of`."""
    series = SeriesContrasts.of(deviations, laplacian, repeated)
    sizes, errors, detected = series.from_others()
    return [
        WindowChanges(
            (sizes[t], errors[t]),
            detected[t],
            tuple(series.between(base, t) for base in bases_of(t, series.windows)),
        )
        for t in range(series.windows)
    ]


def bases_of(number: int, windows: int) -> range:
    """Numbers of the windows that window `number` of a series is compared with."""
    return range(number if windows <= MOST_PAIRED else min(number, 1))


@dataclass(frozen=True)
class SeriesContrasts:
    """The fitted data for contrasts of T windows. repeated: see `contrast_cells`."""

    models: tuple[RandomCells, ...]
    repeated: float

    @classmethod
    def of(cls, deviations: Deviations, laplacian: Any | None, repeated: float) -> SeriesContrasts:
        """Prepare the contrasts of fitted windows. laplacian: of the neighbours of the cells (n,
        n), None for no graph."""
        graphs: tuple[Graph, ...] = ("alike", "neighbours")
        given = graphs if laplacian is not None else graphs[:1]
        models = tuple(_model(deviations, graph, laplacian) for graph in given)
        return cls(models, repeated)

    @property
    def windows(self) -> int:
        """Number of windows, T."""
        return len(self.models[0].scale)

    def contrast(self, pattern: Floats) -> tuple[Floats, Floats]:
        """Mean of the windows of a pattern (T,) of 0 and 1 less that of the others; errors."""
        return contrast_cells(self.models, _contrast(pattern), self.repeated)

    def between(self, first: int, second: int) -> tuple[Floats, Floats]:
        """Differences between window `second` and window `first`, (n,), and standard errors."""
        contrast = np.zeros(self.windows)
        contrast[second] += 1
        contrast[first] -= 1
        return contrast_cells(self.models, contrast, self.repeated)

    def from_others(self) -> tuple[Floats, Floats, Flags]:
        """Differences of each window from the mean of the others: differences, errors and
        changes, (T, n) each.

        A change is detected where one window, or all from one on, differ beyond the Bonferroni
        limit of all cells and patterns, and the window itself by OWN standard errors with the same
        sign: in a steady change a window in the middle is near the mean of the others.
        """
        tried = patterns(self.windows)
        found = [self.contrast(one) for one in tried]
        sizes, errors = (np.stack(part) for part in zip(*found, strict=True))
        tests = tried if self.windows > 2 else tried[1:]  # two windows have one contrast
        used = slice(len(tried) - len(tests), None)
        signs = _significant(tests, sizes[used], errors[used])
        own = slice(0, self.windows)
        detected = (signs != 0) & (signs * sizes[own] > OWN * errors[own])
        return sizes[own], errors[own], detected


def _model(deviations: Deviations, graph: Graph, laplacian: Any | None) -> RandomCells:
    """Cells change by some part of their share, or of an even one: empty cells may fill."""
    shares, size = deviations.shares, len(deviations.shares)
    spread = (shares + 1 / size) / 2
    structure = Prior.of(graph, laplacian, size).structure
    modes = modes_of(replace(deviations, shares=spread), structure)
    covariance = np.eye(size) if graph == "alike" else inv(structure.toarray())
    return RandomCells(
        data=modes.data,
        scale=deviations.scale,
        response=modes.response,
        information=modes.information,
        toward=(spread[:, None] * modes.basis * np.sqrt(modes.information)).T,
        own=spread**2 * np.diag(covariance),
        rows=spread * (covariance @ spread),
        shares=shares,
        rest=modes.rest,
        rest_freedom=modes.rest_freedom,
    )


def _contrast(pattern: Floats) -> Floats:
    return np.asarray(pattern / pattern.sum() - (1 - pattern) / (1 - pattern).sum())


def _significant(tried: Floats, sizes: Floats, errors: Floats) -> Floats:
    """Signs of the significant changes of each window and cell, (T, n), 0 for none.

    tried: patterns (K, T).  sizes, errors: of their contrasts, (K, n). In each cell the pattern
    furthest beyond the limit is taken out of the others, until none is beyond it.
    """
    limit = -float(ndtri(_ALPHA / 2 / sizes.size))
    share = np.array([_contrast(one) for one in tried]) @ tried.T  # of pattern j in contrast i
    signs = np.zeros((tried.shape[1], sizes.shape[1]))
    for cell in np.flatnonzero((np.abs(sizes / errors) > limit).any(axis=0)):
        left = sizes[:, cell].copy()
        for _ in range(len(tried)):
            best = int(np.argmax(np.abs(left / errors[:, cell])))
            size = left[best]
            if abs(size) <= limit * errors[best, cell]:
                break
            signs[tried[best] > 0, cell] = np.sign(size)
            left -= size * share[:, best]
    return signs
