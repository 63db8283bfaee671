"""How far forged reports can move an estimate, and how few could explain each value found.

A forger sends whatever bits he likes, in whatever cohort. Estimates are, to first order, linear
in the debiased bit shares: the best forgery is known bit by bit, and the best choice of cohorts is
a fractional knapsack. Derivation: docs/method.md, "Forged reports".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from decoder.estimation.estimate import Estimate
from decoder.estimation.least_squares import centred_columns
from decoder.model.counts import Observed
from decoder.model.noise import BitNoise
from decoder.typing import Flags, Floats, Indices

PER_CENT = 0.01  # of all reports, whose largest effect is told
_AT_ONCE = 128  # candidates


class Forged(NamedTuple):
    """The three `forged` columns, (G,); NaN for candidates that were not found.

    whole: smallest part of all reports that, forged, accounts for the whole estimate.  low: for
    what is above the lower end of its interval.  shift: largest change of the estimate, up or
    down, that forged reports of 1 % cause.
    """

    whole: Floats
    low: Floats
    shift: Floats


def unknown(groups: int) -> Forged:
    """NaN in every column, for `groups` candidates of which none was found."""
    return Forged(*(np.full(groups, np.nan) for _ in Forged._fields))


def forged(observed: Observed, estimate: Estimate, detected: Flags, low: Floats) -> Forged:
    """The bounds for the detected. low: of their intervals, (G,)."""
    columns = unknown(len(detected))
    found = np.flatnonzero(detected)
    for start in range(0, len(found), _AT_ONCE):
        some = found[start : start + _AT_ONCE]
        gains = _gains(observed, estimate, some)
        if gains is None:
            break
        shares = np.maximum(estimate.shares[some], 0.0)
        columns.whole[some] = smallest_forgery(gains, shares)
        columns.low[some] = smallest_forgery(gains, np.maximum(shares - low[some], 0.0))
        columns.shift[some] = largest_shift(gains, PER_CENT)
    return columns


def _gains(observed: Observed, estimate: Estimate, some: Indices) -> Gains | None:
    """With the reports of those who do not hold the value in the place of what is forged."""
    if estimate.directions is None:
        return None
    noise, shape = observed.noise, (*observed.bit_shares.shape, len(some))
    directions = estimate.directions(some).reshape(shape)
    if estimate.method == "direct":
        mean, seen = 0.0, observed.bit_shares
        columns = directions / (noise.reports / noise.reports.sum())[:, None, None]
    else:
        mean, seen = noise.random.mean, observed.centred
        columns = centred_columns(observed.positions[some], noise.random).reshape(shape)
    honest = seen[:, :, None] - estimate.shares[some] * columns
    return forgery_gains(directions, honest, mean, noise.bits, noise.reports, one=noise.symbols)


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
