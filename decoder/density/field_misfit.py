"""How far shares are from the readings of a window, and what the readings say of `other`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import chi2

from decoder.density.field_prior import OTHER_PRECISION
from decoder.density.linear_system import Reading
from decoder.typing import Floats

UNLIKELY = 1e-6  # of a chi-square
LEAST_OTHER = 1e-6  # a share of 0 has no logarithm


class Misfit:
    """The readings, each row weighted by its precision if the cells held `held` (n,)."""

    def __init__(self, readings: Sequence[Reading], held: Floats) -> None:
        self.size = len(held)
        self._rows = [(one.design, one.target, one.precision(held)) for one in readings]
        self.freedom = sum(one.freedom for one in readings)

    def at(self, shares: Floats) -> tuple[float, Floats]:
        """Half the weighted squares of the residuals, and their slope in the shares (n,)."""
        value, slope = 0.0, np.zeros(self.size)
        for design, target, weight in self._rows:
            residual = design @ shares - target
            weighted = weight * residual
            value += 0.5 * float(residual @ weighted)
            slope += weighted @ design
        return value, slope

    def explains(self, shares: Floats) -> bool:
        """Whether the residuals are no larger than noise makes them (one in a million is)."""
        return 2 * self.at(shares)[0] <= float(chi2.isf(UNLIKELY, self.freedom))

    def own_information(self) -> Floats:
        """The diagonal of the information about the shares, (n,); designs hold 0 and 1."""
        return np.asarray(sum(weight @ design for design, _, weight in self._rows))

    def information(self) -> Floats:
        """The information about the shares, (n, n)."""
        parts = [design.T @ design.multiply(w[:, None]) for design, _, w in self._rows]
        return np.asarray(sum(part.toarray() for part in parts))

    def other_share(self, cells: Floats) -> tuple[float, float]:
        """Weighted least squares of the share of `other`, and its standard error.

        cells: shares (n,) of which the last is not read; the others are scaled to what is left.
        """
        inside = np.append(cells[:-1] / cells[:-1].sum(), 0.0)
        outside = np.zeros(self.size)
        outside[-1] = 1.0
        product, square = 0.0, 0.0
        for design, target, weight in self._rows:
            base = design @ inside
            toward = design @ outside - base
            product += float(toward @ (weight * (target - base)))
            square += float(toward @ (weight * toward))
        if square <= 0:
            return float(cells[-1]), np.inf
        share = float(np.clip(product / square, LEAST_OTHER, 1 - LEAST_OTHER))
        return share, float(square**-0.5)


def with_other(cells: Floats, share: float) -> Floats:
    """The map (n,) with `other` set to `share`, and the cells scaled to the rest."""
    inside = cells[:-1] * ((1 - share) / cells[:-1].sum())
    return np.append(inside, share)


def even_map(readings: Sequence[Reading], size: int, other: bool) -> Floats:
    """All cells alike, (n,), with the share of `other` that the readings say."""
    shares = np.full(size, 1 / size)
    for _ in range(2 if other else 0):  # the weights depend on it
        shares = with_other(shares, Misfit(readings, shares).other_share(shares)[0])
    return shares


def even_evidence(misfit: Misfit, even: Floats, other: bool) -> float:
    """Log evidence that all cells hold the same, up to the constant of a field's (`laplace`)."""
    value, _ = misfit.at(even)
    if not other:
        return -value
    share, error = float(even[-1]), misfit.other_share(even)[1]
    away = np.log(share) - np.log(even[0])
    curvature = (share * (1 - share) / error) ** 2 + OTHER_PRECISION
    height = 0.5 * np.log(OTHER_PRECISION / curvature)
    return float(height - value - 0.5 * OTHER_PRECISION * away**2)
