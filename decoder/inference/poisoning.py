"""How far forged reports can move an estimate, and how few could explain all of it.

A forger sends whatever bits he likes, in whatever cohort. Estimates are, to first order, linear
in the debiased bit shares: the best forgery is known bit by bit, and the best choice of cohorts is
a fractional knapsack. Derivation: docs/method.md, "Forged reports".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from decoder.model.noise import BitNoise
from decoder.typing import Floats


class Gains(NamedTuple):
    """The largest shift of B estimates if all reports of a cohort are forged; (m, B) each.

    up, down: shift of an estimate, >= 0 in size, if all reports of a cohort are forged.
    weights: part of all reports that the cohort has, (m,).
    """

    up: Floats
    down: Floats
    weights: Floats


def forgery_gains(
    directions: Floats, honest: Floats, mean: float, noise: BitNoise, reports: Floats, *, one: bool
) -> Gains:
    """The largest shifts, up and down, of each estimate by forged reports of each cohort.

    directions: g, change of each estimate by each debiased bit share, (m, k, B).  honest: centred
    bit shares of the reports that would be replaced, (m, k, B).  mean: a, which centres them.
    reports: N_j, (m,).  one: a report shows exactly one of the k symbols.
    """
    lowest, highest = sorted(((0 - noise.p_star) / noise.gap, (1 - noise.p_star) / noise.gap))
    now = (directions * honest).sum(axis=1)
    if one:
        unshown = directions.sum(axis=1) * (-noise.p_star / noise.gap - mean)
        steps = directions / noise.gap
        up, down = unshown + steps.max(axis=1), unshown + steps.min(axis=1)
    else:
        positive, negative = np.maximum(directions, 0.0), np.minimum(directions, 0.0)
        low, high = lowest - mean, highest - mean
        up = (positive * high + negative * low).sum(axis=1)
        down = (positive * low + negative * high).sum(axis=1)
    return Gains(np.maximum(up - now, 0.0), np.maximum(now - down, 0.0), reports / reports.sum())


def smallest_forgery(gains: Gains, shifts: Floats) -> Floats:
    """The smallest part of all reports that raises each estimate by `shifts` (B,); at most 1.

    Cohorts are filled in the order of what a forged report of theirs gains.
    """
    gained, spent = _filled(gains.up, gains.weights)
    needed = [np.interp(shift, g, x) for shift, g, x in zip(shifts, gained.T, spent.T, strict=True)]
    return np.array(needed, dtype=np.float64)


def largest_shift(gains: Gains, fraction: float) -> Floats:
    """The largest change of each estimate, up or down, by forged reports, (B,).

    fraction: of all reports that are forged, in [0, 1].
    """
    return np.maximum(*(_shift(side, gains.weights, fraction) for side in (gains.up, gains.down)))


def _shift(gains: Floats, weights: Floats, fraction: float) -> Floats:
    gained, spent = _filled(gains, weights)
    shifts = [np.interp(fraction, x, g) for g, x in zip(gained.T, spent.T, strict=True)]
    return np.array(shifts, dtype=np.float64)


def _filled(gains: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Shift gained and part of the reports spent as cohorts are filled, (m + 1, B) each."""
    order = np.argsort(-gains / weights[:, None], axis=0, kind="stable")
    gained = np.cumsum(np.take_along_axis(gains, order, axis=0), axis=0)
    spent = np.cumsum(weights[order], axis=0)
    return np.vstack([0 * gained[:1], gained]), np.vstack([0 * spent[:1], spent])
