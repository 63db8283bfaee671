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

from decoder.comparison.cell_contrasts import RandomCells, contrast_cells
from decoder.comparison.differences import corrected, no_change
from decoder.density.field_prior import Graph, Prior
from decoder.density.space_time_changes import patterns
from decoder.density.space_time_modes import Deviations, modes_of
from decoder.typing import Floats

MOST_PAIRED = 14  # windows of a series: 91 pairs; of a longer one each is compared with the first
OWN = 2.0  # standard errors by which one of many windows itself must differ


class WindowChanges(NamedTuple):
    """Changes of the cells of one window, (n,) each, with standard errors.

    from_others: less the mean of the other windows; p_adjusted: of no such change, times the
    number of all cells and patterns of windows (Bonferroni); of two windows over the cells
    (Benjamini-Hochberg).  since: less each earlier window, the first one's change first; of a
    series of more than 14 windows less the first alone.
    """

    from_others: tuple[Floats, Floats]
    p_adjusted: Floats
    since: tuple[tuple[Floats, Floats], ...]


def series_changes(
    deviations: Deviations, laplacian: Any | None, repeated: float
) -> list[WindowChanges]:
    """Changes of each of two or more windows against the others. Arguments as in
    `SeriesContrasts.of`."""
    series = SeriesContrasts.of(deviations, laplacian, repeated)
    sizes, errors, p_adjusted = series.from_others()
    return [
        WindowChanges(
            (sizes[t], errors[t]),
            p_adjusted[t],
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

    def from_others(self) -> tuple[Floats, Floats, Floats]:
        """Differences of each window from the mean of the others: differences, errors and
        p-values, (T, n) each, which are corrected for all cells and patterns (`_p_adjusted`).

        Of three windows or more the window itself must differ by OWN standard errors: in a steady
        change a window in the middle is near the mean of the others. Two windows have one contrast,
        which tells the later one: it is that since the first, and is corrected as that.
        """
        tried = patterns(self.windows)
        found = [self.contrast(one) for one in tried]
        sizes, errors = (np.stack(part) for part in zip(*found, strict=True))
        own = sizes[: self.windows], errors[: self.windows]
        if self.windows == 2:
            later = corrected(no_change(sizes[1], errors[1])).adjusted
            return *own, np.stack([np.ones_like(later), later])
        signs = np.where(np.abs(own[0]) > OWN * own[1], np.sign(own[0]), 0.0)
        return *own, _p_adjusted(tried, sizes, errors, signs)


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


def _p_adjusted(tried: Floats, sizes: Floats, errors: Floats, signs: Floats) -> Floats:
    """Corrected p-values that a cell does not change in a window, (T, n).

    In each cell the pattern with the smallest p-value is taken out of the others, then the next. A
    p-value is times the number of all cells and patterns, and not below those taken before it. That
    of a window is of the first pattern that holds it and has its sign; 1 without one.

    tried: patterns (K, T).  sizes, errors: of their contrasts, (K, n).  signs: of the windows' own
    differences, (T, n), 0 where a window itself does not differ.
    """
    share = np.array([_contrast(one) for one in tried]) @ tried.T  # of pattern j in contrast i
    left, cells = sizes.copy(), np.arange(sizes.shape[1])
    found, reached = np.ones(signs.shape), np.zeros(sizes.shape[1])
    for _ in range(len(tried)):
        best = np.argmax(np.abs(left / errors), axis=0)
        size = left[best, cells]
        p = no_change(size, errors[best, cells])
        reached = np.maximum(reached, np.minimum(p * sizes.size, 1.0))
        if (reached == 1).all():
            break
        holds = (tried[best].T > 0) & (signs == np.sign(size)) & (signs != 0)
        found = np.where(holds, np.minimum(found, reached), found)
        left -= size * share[:, best]
    return found
