"""Intervals of detected values after selection, and the possible effect of fabricated reports.

An attacker can send any bits in any cohort. Estimates are, to first order, linear in the debiased
bit shares, so the optimal attack is known bit by bit, and the best choice of cohorts is a
fractional knapsack (docs/method.md, "Forged reports")."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

from decoder.estimation.estimate import Estimate
from decoder.estimation.least_squares import centered_columns
from decoder.inference.intervals import bisect, selected_interval
from decoder.inference.multiple_testing import ListDecision
from decoder.model.counts import Observed
from decoder.model.noise import BitNoise
from decoder.options import DecodeOptions
from decoder.typing import Flags, Floats, Indices

_NO_CUT = 8.0  # standard errors below 0, lower than any estimate
_FAR = 40.0  # standard errors, beyond any threshold
_MANY = 1e9  # degrees of freedom above which Student's t is normal
_MIN_MISSED = 0.2  # the minimum fraction of the error level for correctly detected values
EVEN_ODDS = 0.5  # local fdr above which a detected value is more likely wrong than right
MIN_LOW = 1e-9  # the minimum lower end of a detected share's interval that excludes 0


def selected_intervals(
    estimate: Estimate, decision: ListDecision, options: DecodeOptions
) -> tuple[Floats, Floats]:
    """Return intervals (G,) of the detected values, adjusted for selection; NaN for other values.

    They are within 0 and 1; the lower end is raised to what test and prior both exclude. They agree
    with the decision: if the rule accepts no p-value above (1 - level) / 2, the interval of an
    accepted candidate excludes 0 (docs/method.md, "Intervals and the printed share")."""
    low, high = np.full((2, len(estimate.shares)), np.nan)
    detected = np.flatnonzero(decision.detected)
    if not len(detected):
        return low, high
    cutoffs, spread = _cutoffs(estimate, decision, options, detected)
    shares, printed = estimate.shares[detected], estimate.shrunken[detected]
    wrong = estimate.local_fdr[detected]
    reaching = wrong > EVEN_ODDS
    told_apart = np.where(reaching, 0.0, wrong)[decision.listed(detected)]
    # An interval without 0 misses the share of a wrong string. Subtract those misses from the
    # error level of all intervals, down to a fifth of it.
    missed = 1 - options.level - (float(told_apart.mean()) if told_apart.size else 0.0)
    level = 1 - max(missed, (1 - options.level) * _MIN_MISSED)
    tail = (1 - level) / 2
    wider = max(float(stdtrit(min(estimate.freedom, _MANY), tail) / ndtri(tail)), 1.0)
    errors = estimate.std_errors[detected] * wider  # scaled to the quantile of Student's t
    lows, highs = selected_interval(shares, errors, cutoffs, level)
    # The test's margin is the rule's cutoff, but at least that of a plain interval.
    plain = estimate.tail.score(-ndtri([(1 - options.level) / 2])) * spread
    tested = np.clip(shares - np.maximum(cutoffs, plain), 0, 1)
    lows = np.maximum(lows, np.minimum(tested, _least_held(estimate, detected, tail)))
    highs = np.maximum(highs, np.clip(shares, 0, 1))
    lows = np.where(reaching, 0.0, np.minimum(lows, printed))
    low[detected] = np.where(lows < MIN_LOW, 0.0, lows)  # such a row has a note
    high[detected] = np.clip(np.maximum(highs, printed), 0, 1)
    return low, high


def _least_held(estimate: Estimate, indices: Indices, tail: float) -> Floats:
    """Return the `tail` quantile (D,) of the posterior, given that the value is present.

    With the test alone, a true share far below the cutoff would be outside its interval."""
    if estimate.prior is None:
        return np.full(len(indices), np.inf)
    shares, errors = estimate.shares[indices], estimate.std_errors[indices]
    below = estimate.prior.held_below(shares, errors, estimate.tail.deviate(estimate.z[indices]))
    highest = np.maximum(shares, 0) + _FAR * errors
    return bisect(lambda limits: below(limits) - tail, np.zeros(len(indices)), highest)


def _cutoffs(
    estimate: Estimate, decision: ListDecision, options: DecodeOptions, indices: Indices
) -> tuple[Floats, Floats]:
    """Return the smallest estimate at which each detected candidate would be accepted, (D,).

    The second result is the share per unit of the test's score, (D,)."""
    shares, z, errors = (x[indices] for x in (estimate.shares, estimate.z, estimate.std_errors))
    spread = np.divide(shares, z, out=errors.copy(), where=shares * z > 0)
    largest, prior = decision.largest(indices), estimate.prior
    by_local_fdr = options.correction == "fdr-eb"
    largest_p = np.minimum(np.inf if by_local_fdr else largest, options.largest_p)
    each, back = np.unique(np.broadcast_to(largest_p, indices.shape), return_inverse=True)
    cutoffs = estimate.tail.score(np.maximum(-ndtri(each), -_FAR))[back] * spread
    if by_local_fdr and prior is not None:

        def rising(shares: Floats) -> Floats:
            null_z = estimate.tail.deviate(shares / errors)
            return largest - prior.posterior(shares, errors, null_z).local_fdr

        cutoffs = np.maximum(cutoffs, bisect(rising, -_NO_CUT * errors, _FAR * errors))
    return np.asarray(cutoffs), np.asarray(spread)


PER_CENT = 0.01  # the fraction of fabricated reports whose maximum effect is stated
_AT_ONCE = 128  # candidates per batch, to limit memory


def forged(
    observed: Observed, estimate: Estimate, detected: Flags, low: Floats
) -> dict[str, Floats]:
    """Return the `forged` columns of candidates.csv, (G,); NaN if not detected.

    `low` are the lower ends of the intervals."""
    whole, above_low, shift = (np.full(len(detected), np.nan) for _ in range(3))
    indices = np.flatnonzero(detected)
    for start in range(0, len(indices), _AT_ONCE):
        some = indices[start : start + _AT_ONCE]
        gains = _gains(observed, estimate, some)
        shares = np.maximum(estimate.shares[some], 0.0)
        whole[some] = smallest_forgery(gains, shares)
        above_low[some] = smallest_forgery(gains, np.maximum(shares - low[some], 0.0))
        shift[some] = largest_shift(gains, PER_CENT)
    return {"forged": whole, "forged_low": above_low, "forged_shift": shift}


def _gains(observed: Observed, estimate: Estimate, some: Indices) -> Gains:
    """Return the gains if fabricated reports replace those of devices without the value."""
    assert estimate.directions is not None  # noqa: S101 (every estimator gives them)
    noise, shape = observed.noise, (*observed.bit_shares.shape, len(some))
    directions = estimate.directions(some).reshape(shape)
    if estimate.method == "direct":
        mean, bit_shares = 0.0, observed.bit_shares
        columns = directions / (noise.reports / noise.reports.sum())[:, None, None]
    else:
        mean, bit_shares = noise.random.mean, observed.centered
        columns = centered_columns(observed.positions[some], noise.random).reshape(shape)
    honest = bit_shares[:, :, None] - estimate.shares[some] * columns
    return forgery_gains(directions, honest, mean, noise.bits, noise.reports, one=noise.symbols)


class Gains(NamedTuple):
    """The largest shifts (m, B) of B estimates if all reports of a cohort are fabricated."""

    up: Floats
    down: Floats
    weights: Floats  # Each cohort's fraction of all reports, (m,)


def forgery_gains(
    directions: Floats, honest: Floats, mean: float, noise: BitNoise, reports: Floats, *, one: bool
) -> Gains:
    """Return the largest shifts, up and down, of each estimate by a cohort's fabricated reports.

    Args:
        directions: The derivative g of each estimate by each debiased bit share, (m, k, B).
        honest: The centered bit shares of the replaced reports, (m, k, B).
        mean: The value a that centers them.
        noise: The noise of one bit.
        reports: The number of reports N_j, (m,).
        one: Whether a report has exactly one of the k symbols.
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
    """Return the smallest fraction of all reports that can raise each estimate by `shifts` (B,)."""
    gained, spent = _filled(gains.up, gains.weights)
    return _interpolated(shifts, gained, spent)


def largest_shift(gains: Gains, fraction: float) -> Floats:
    """Return the maximum change (B,) of each estimate if a `fraction` of reports is fabricated."""
    at = np.full(gains.up.shape[1], fraction)
    sides = (_filled(side, gains.weights) for side in (gains.up, gains.down))
    return np.maximum(*(_interpolated(at, spent, gained) for gained, spent in sides))


def _interpolated(at: Floats, x: Floats, y: Floats) -> Floats:
    return np.array([np.interp(*row) for row in zip(at, x.T, y.T, strict=True)], dtype=np.float64)


def _filled(gains: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the cumulative shift and fraction of reports, with the most effective cohorts first.

    Both have shape (m + 1, B)."""
    order = np.argsort(-gains / weights[:, None], axis=0, kind="stable")
    gained = np.cumsum(np.take_along_axis(gains, order, axis=0), axis=0)
    spent = np.cumsum(weights[order], axis=0)
    return np.vstack([0 * gained[:1], gained]), np.vstack([0 * spent[:1], spent])
