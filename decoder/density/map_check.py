"""Test whether a map agrees with the reports that it was made from, as a whole and in coarse
sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import chdtrc

from decoder.density.linear_system import UNLIKELY, LevelEquations, Misfit
from decoder.typing import Floats

BLOCKS = 15
_NO_INFORMATION = 1e-9  # of the largest eigenvalue


@dataclass(frozen=True)
class MapCheck:
    """A chi-square test of a map against unbiased estimates of its coarse sums.

    The sums are of each reserved value and of 15 blocks of cells that follow each other in the
    grid's list, estimated by weighted least squares. The map was fitted to the same reports, so
    p_value is rather too large than too small.  misfit: the same for all rows of the reports,
    misfit_freedom its degrees of freedom.
    """

    chi_square: float
    freedom: int
    misfit: float
    misfit_freedom: int
    dispersion: float = 1.0

    @property
    def p_value(self) -> float:
        """P-value of the test of the coarse sums, in [0, 1]."""
        return float(chdtrc(self.freedom, self.chi_square / self.dispersion))

    @property
    def agrees(self) -> bool:
        """Whether neither test rejects the map at one in a million."""
        rows = chdtrc(self.misfit_freedom, self.misfit / self.dispersion)
        return self.p_value > UNLIKELY and float(rows) > UNLIKELY


def check_map(readings: Sequence[LevelEquations], shares: Floats, reserved: int) -> MapCheck:
    """Test a map (n,) against the equations of its window.

    Where it does not agree, and there are more rows than cells, the noise is measured by a fit
    without a prior: reports that vary more than was declared are not the map's fault.
    """
    residual, design = _weighted(readings, shares)
    profiles = design @ _profiles(len(shares), reserved)
    values, vectors = np.linalg.eigh(profiles.T @ profiles)
    kept = values > _NO_INFORMATION * values[-1]
    scores = (vectors[:, kept].T @ (profiles.T @ residual)) / np.sqrt(values[kept])
    rows = Misfit(readings, shares).freedom
    found = MapCheck(float(scores @ scores), int(kept.sum()), float(residual @ residual), rows)
    if found.agrees:
        return found
    spread = _dispersion(residual, design, rows)
    return MapCheck(found.chi_square, found.freedom, found.misfit, rows, spread)


def _weighted(readings: Sequence[LevelEquations], shares: Floats) -> tuple[Floats, Any]:
    """Residuals (rows,) and designs (rows, n), sparse, divided by the rows' standard errors."""
    residuals, designs = [], []
    for one in readings:
        root = np.sqrt(one.precision(shares))
        residuals.append(root * (one.target - one.design @ shares))
        designs.append(sparse.diags_array(root) @ one.design)
    return np.concatenate(residuals), sparse.vstack(designs).tocsr()


def _profiles(size: int, reserved: int) -> Floats:
    """Moves (n, blocks + reserved) of mass from all cells alike to all of a block alike.

    None follows the map: its shape was fitted to these very reports, and what a prior kept it from
    following would look like a disagreement, however small.
    """
    cells = size - reserved
    blocks = min(BLOCKS, cells)
    block = np.append(np.arange(cells) * blocks // max(cells, 1), blocks + np.arange(reserved))
    inside = (block[:, None] == np.arange(block[-1] + 1)).astype(np.float64)
    even = np.append(np.full(cells, 1 / max(cells, 1)), np.zeros(reserved))
    return np.asarray(inside / inside.sum(axis=0) - even[:, None])


def _dispersion(residual: Floats, design: Any, rows: int) -> float:
    """Variance of the rows over what was declared, at least 1; 1 where cells explain any rows."""
    cells = design.shape[1]
    if rows <= cells:
        return 1.0
    fitted = design @ np.linalg.lstsq(design.toarray(), residual, rcond=None)[0]
    left = residual - fitted
    return float(max(1.0, float(left @ left) / (rows - cells)))
