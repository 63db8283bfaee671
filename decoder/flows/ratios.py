"""Shares among those of one origin: ratios of two sums of flows, with Fieller's intervals."""

from __future__ import annotations

import numpy as np

from decoder.flows.moments import Moments, Together
from decoder.typing import Floats

_ABOVE = 1 + 1e-9  # where nothing is told, the error is very large instead of infinite


def ratios(
    part: Moments, whole: Moments, both: Together, quantile: float
) -> tuple[Floats, Floats, Floats]:
    """Ratios part / whole within 0 and 1, with the ends of their intervals.

    The prior of both departures is taken out together, as `Moments.cavity` does for one. The test
    of part - ratio * whole = 0 is not rejected between the ends (Fieller 1954).

    Args:
        part, whole, both: moments of the sums, (rows,) each, and of one with the other.
        quantile: of the normal distribution, of half of the level left out.

    Returns:
        Ratio, lower and upper end, (rows,) each; 0 and 1 are the ends where the answers tell
        nothing.
    """
    value, covariance = _joint_cavity(part, whole, both)
    top, bottom = value[:, 0], value[:, 1]
    square = bottom**2 - quantile**2 * covariance[:, 1, 1]
    mixed = top * bottom - quantile**2 * covariance[:, 0, 1]
    plain = top**2 - quantile**2 * covariance[:, 0, 0]
    inner = mixed**2 - square * plain
    told = (bottom > 0) & (square > 0) & (inner >= 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(np.maximum(inner, 0))
        found = np.clip(np.where(bottom > 0, top / bottom, 0.5), 0, 1)
        low = np.where(told, np.clip((mixed - root) / square, 0, 1), 0.0)
        high = np.where(told, np.clip((mixed + root) / square, 0, 1), 1.0)
    return np.where(np.isfinite(found), found, 0.5), low, high


def _joint_cavity(part: Moments, whole: Moments, both: Together) -> tuple[Floats, Floats]:
    """Estimates (rows, 2) and covariances (rows, 2, 2), without the prior of both departures."""
    prior = _square(part.prior, both.prior, both.prior, whole.prior)
    spread = _square(part.variance, both.variance, both.variance, whole.variance)
    cross = _square(part.covariance, both.forward, both.backward, whole.covariance)
    gravity = _square(part.gravity_variance, both.gravity, both.gravity, whole.gravity_variance)
    departure = np.stack([part.departure, whole.departure], axis=-1)
    fitted = np.stack([part.fitted, whole.fitted], axis=-1)
    # spread' = spread (prior - spread)^-1 prior: the inverse of spread^-1 - prior^-1
    free = spread @ np.linalg.solve(prior * _ABOVE - spread, prior)
    gain = np.linalg.solve(spread, cross)
    moved = np.einsum("rij,rj->ri", free, np.linalg.solve(spread, departure[..., None])[..., 0])
    follows = np.einsum("rji,rj->ri", gain, moved - departure)
    mixed = free @ gain
    covariance = free + mixed + mixed.swapaxes(1, 2) + gravity
    covariance -= gain.swapaxes(1, 2) @ (spread - free) @ gain
    return fitted + moved + follows, covariance


def _square(first: Floats, second: Floats, third: Floats, fourth: Floats) -> Floats:
    """Matrices (rows, 2, 2)."""
    return np.stack([first, second, third, fourth], axis=-1).reshape(-1, 2, 2)
