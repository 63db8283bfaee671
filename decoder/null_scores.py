"""The null distribution of a score beyond its variance: a saddlepoint approximation.

Given the residual u, the score of a string that nobody holds is a sum over cohorts of h values
drawn at random from the rows of u: its whole distribution is known, not only its variance. One
heavy unlisted value leaves a few large entries in u and makes the tail heavier than normal, the
more so the fewer the cohorts. Barndorff-Nielsen's r* (1986) on the cumulants of that sum; see
docs/decoding.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_TILTS = np.geomspace(0.3, 60, 40)
_LEAST_VARIANCE = 0.02  # of the tilted sum: below it the sum is at the end of its range


@dataclass(frozen=True)
class NullTail:
    """Scores and the standard normal deviates with the same upper tail; both rise, from (0, 0).

    Only ever weakens evidence: where the tail is lighter than normal it is taken as normal.
    Beyond the last point both go on with slope 1.
    """

    scores: Floats
    deviates: Floats

    def deviate(self, z: Floats) -> Floats:
        """Normal deviates of standardised scores (M,)."""
        return _extended(z, self.scores, self.deviates)

    def score(self, deviate: Floats) -> Floats:
        """The inverse of `deviate`."""
        return _extended(deviate, self.deviates, self.scores)


NORMAL_TAIL = NullTail(np.array([0.0, 1.0]), np.array([0.0, 1.0]))


def null_tail(residual: Floats, draws: int) -> NullTail:
    """Tabulate the tail for a residual u (m, k); `draws` is h, the hashes in one cohort."""
    centred = residual - residual.mean(axis=1, keepdims=True)
    scale = float(np.sqrt(draws * (centred**2).mean(axis=1).sum()))
    if scale == 0:
        return NORMAL_TAIL
    pairs = [_point(float(tilt), centred / scale, draws) for tilt in _TILTS]
    scores, deviates = np.array([(0.0, 0.0), *(pair for pair in pairs if pair is not None)]).T
    rising = np.maximum.accumulate(np.minimum(deviates, scores) + 1e-9 * np.arange(len(scores)))
    return NullTail(scores, rising)


def _extended(x: Floats, points: Floats, values: Floats) -> Floats:
    """Interpolate, with slope 1 outside the points."""
    inside = np.interp(x, points, values)
    return np.asarray(inside + np.maximum(x - points[-1], 0) + np.minimum(x - points[0], 0))


def _point(tilt: float, rows: Floats, draws: int) -> tuple[float, float] | None:
    """x = K'(s) and r* = w + log(v / w) / w, w = sqrt(2 (s x - K)), v = s sqrt(K''), for s > 0.

    K(s) = h sum_j log mean_b exp(s u_jb): h independent draws from each row, whose coincidences
    we neglect. `rows` (m, k) are scaled to K''(0) = 1. None at the end of the range.
    """
    logs = tilt * rows
    highest = logs.max(axis=1, keepdims=True)
    weights = np.exp(logs - highest)
    sums = weights.sum(axis=1, keepdims=True)
    totals = (highest + np.log(sums))[:, 0]
    weights /= sums
    means = (weights * rows).sum(axis=1)
    variance = draws * float(((weights * rows**2).sum(axis=1) - means**2).sum())
    if variance < _LEAST_VARIANCE:
        return None
    x = draws * float(means.sum())
    cumulant = draws * float((totals - np.log(rows.shape[1])).sum())
    w = float(np.sqrt(2 * (tilt * x - cumulant)))
    return x, w + float(np.log(tilt * np.sqrt(variance) / w)) / w
