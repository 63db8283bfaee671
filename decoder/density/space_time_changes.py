"""Changes of single cells that a smooth map would erase: found, released, refitted together.

A deviation is in proportion to the share of its cell in the shared map, so a new crowd in an
empty cell cannot show. Every cell is tested for a change in one window, and from a window on, by
its score under the model of noise and deviations; the largest beyond the Bonferroni limit of all
tests is added, all that were added are refitted together, and what is left is tested again. This
makes the maps; what is said of changes is estimated apart from it (`cell_changes`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from decoder.density.space_time_modes import Modes
from decoder.density.space_time_strengths import Contrasts
from decoder.typing import Floats, Indices

MOST_RELEASED = 40


@dataclass(frozen=True)
class Released:
    """Changes found. cells, patterns: indices, (m,).  sizes, errors: refitted together, (m,).

    Sizes are of the cell's share among those who are in a cell.
    """

    cells: Indices
    patterns: Indices
    sizes: Floats
    errors: Floats

    @property
    def shrunk(self) -> Floats:
        """The sizes without what the largest of many exceeds its mean by on average: times 1 - 1
        / z^2."""
        z = self.sizes / self.errors
        return np.asarray(self.sizes * np.maximum(1 - 1 / z**2, 0.0))


class ChangeTest:
    """The scores of all cells and patterns, given the changes that were found so far."""

    def __init__(self, modes: Modes, contrasts: Contrasts, data: Floats, variances: Floats) -> None:
        """data, variances: of each direction and turned contrast, (r, T - 1)."""
        self.patterns = patterns(contrasts.turn.shape[1])
        self._turned = self.patterns @ contrasts.turn.T
        self._response, self._data, self._variances = modes.response, data, variances
        squares = (modes.response**2).T @ (1 / variances)
        self._information = squares @ (self._turned**2).T

    @property
    def limit(self) -> float:
        """The Bonferroni limit of |z| at a family-wise level of .05."""
        return -float(ndtri(0.025 / self._information.size))

    def released(self) -> Released:
        """Add the largest score beyond the limit, refit, and so on, at most 40 times."""
        found = Released(*(np.zeros(0, dtype=kind) for kind in (np.intp, np.intp, float, float)))
        for _ in range(MOST_RELEASED):
            z = np.abs(self._scores(found) / np.sqrt(self._usable()))
            z[found.cells, found.patterns] = 0.0
            cell, pattern = np.unravel_index(int(np.argmax(z)), z.shape)
            if z[cell, pattern] <= self.limit:
                break
            found = self._refitted(np.append(found.cells, cell), np.append(found.patterns, pattern))
        return found

    def rest(self, found: Released) -> Floats:
        """The data (r, T - 1) less the changes in `found`."""
        told = self._response[:, found.cells] * found.sizes
        return self._data - told @ self._turned[found.patterns]

    def _usable(self) -> Floats:
        return np.maximum(self._information, 1e-12 * float(self._information.max()))

    def _scores(self, found: Released) -> Floats:
        """Slopes of the log likelihood in each size, (n, K)."""
        weighted = self.rest(found) / self._variances
        return np.asarray((self._response.T @ weighted) @ self._turned.T)

    def _refitted(self, cells: Indices, which: Indices) -> Released:
        """All sizes together, by generalised least squares."""
        columns = np.einsum("im,mj->ijm", self._response[:, cells], self._turned[which])
        weighted = columns / self._variances[..., None]
        matrix = np.tensordot(columns, weighted, axes=([0, 1], [0, 1]))
        aim = np.tensordot(weighted, self._data, axes=([0, 1], [0, 1]))
        covariance = np.linalg.pinv(matrix, hermitian=True)
        return Released(cells, which, covariance @ aim, np.sqrt(np.diag(covariance)))


def patterns(windows: int) -> Floats:
    """The patterns of windows to test: each window alone, then from each window on.

    (K, windows), of 0 and 1.
    """
    steps = [np.arange(windows) >= first for first in range(2, windows - 1)]
    return np.vstack([np.eye(windows), *(step.astype(float)[None] for step in steps)])
