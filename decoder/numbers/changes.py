"""Changes in a number metric between windows.

Devices repeat their memoized answers in both windows, which reduces the noise of a difference. The
factor is estimated from cohorts that ask the same question. Without two such cohorts, windows are
treated as independent, which is conservative (docs/method.md, "Numbers")."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import fdtrc

from decoder.comparison.differences import (
    WindowChange,
    corrected_windows,
    differences,
    window_pairs,
)
from decoder.errors import DecodeError
from decoder.model.counts import collected_repetition
from decoder.numbers.decoding import decode_numbers
from decoder.numbers.quantities import NumberDecoding, strata_weights
from decoder.numbers.survival import CutCounts, Survival, cut_counts, replicate_factor, survival
from decoder.options import DecodeOptions
from decoder.typing import Floats
from rappor_core.aggregate import Aggregate
from rappor_core.mechanism import PROBABILITY_SCALE, TwoRoundMechanism

ANY_DATA = "any data"
MEAN = "mean"  # the prefix of names of quantities other than shares


@dataclass(frozen=True)
class NumberChange(WindowChange):
    """All changes between two windows: shares at or above an edge, "any data", or "mean"."""

    p_any: float  # P-value for no change at any edge


@dataclass(frozen=True)
class NumberSeries:
    """Decoded windows, oldest first, with changes to the next window, and from first to last."""

    windows: tuple[NumberDecoding, ...]
    changes: tuple[NumberChange, ...]


def decode_numbers_over_time(
    aggregates: Sequence[Aggregate], options: DecodeOptions | None = None
) -> NumberSeries:
    """Decode windows of one metric and compare them.

    Args:
        aggregates: The windows, oldest first, two or more.
        options: The levels of tests and intervals; None for the defaults.

    Returns:
        The windows and their changes, corrected for all comparisons.

    Raises:
        DecodeError: There are fewer than two windows, several metrics, or no reports of a question.
    """
    pairs, options = window_pairs(len(aggregates)), options or DecodeOptions()
    windows = tuple(decode_numbers(aggregate, options) for aggregate in aggregates)
    changes = [
        replace(compare_numbers(aggregates[i], aggregates[j], options), first=i, second=j)
        for i, j in pairs
    ]
    return NumberSeries(windows, corrected_windows(changes, options.alpha))


def compare_numbers(
    before: Aggregate, after: Aggregate, options: DecodeOptions | None = None
) -> NumberChange:
    """Estimate the changes in the shares at or above each cut, and in the mean if requested.

    Args:
        before: The earlier window.
        after: The later window.
        options: The levels of tests and intervals; None for the defaults.

    Returns:
        The changes, later minus earlier, with their standard errors.

    Raises:
        DecodeError: The metrics have different meanings.
    """
    options = options or DecodeOptions()
    if (before.metric, before.params_id) != (after.metric, after.params_id):
        raise DecodeError(f"{before.metric!r} and {after.metric!r} have different meanings")
    sides = []
    for aggregate in (before, after):
        used = aggregate.without(options.without_cohorts)
        counts = cut_counts(used)
        sides.append((counts, survival(counts, collected_repetition(used, options.repeats))))
    first, second = (curve for _, curve in sides)
    (early, early_v), (late, late_v) = (_parts(counts) for counts, _ in sides)
    kappa, freedom = _factor(late - early, late_v + early_v, sides, before.params.mechanism)
    difference = second.shares - first.shares
    plain = [curve.covariance / curve.kappa for curve in (first, second)]
    variances = kappa * (np.diag(plain[0]) + np.diag(plain[1]))
    number = first.counts.number
    names = [ANY_DATA if math.isinf(cut) else f"{cut:.10g}" for cut in number.asked]
    listed = range(len(names)) if number.ask == "edges" else range(number.none == "apart")
    rows = [(names[j], difference[j], variances[j]) for j in listed]
    if number.ask == "mean":
        (early_mean, left), (late_mean, right) = (_mean_slope(curve) for curve in (first, second))
        variance = kappa * float(left @ plain[0] @ left + right @ plain[1] @ right)
        name = f"{MEAN} logarithm" if number.scale == "log" else MEAN
        rows.append((name, late_mean - early_mean, variance))
    quantities, changes, spread = zip(*rows, strict=True)
    errors = np.sqrt(np.maximum(spread, 1e-300))
    table = differences(np.array(changes), errors, alpha=options.alpha, freedom=freedom)
    each = difference**2 / np.maximum(variances, 1e-300)  # the mean has an F distribution
    p_any = fdtrc(len(each), min(freedom, 1e9), float(each.sum()) / len(each))
    return NumberChange(0, 1, quantities, table, float(p_any))


def _parts(counts: CutCounts) -> tuple[Floats, Floats]:
    n = counts.reports
    rho = counts.rates(1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = (counts.above / n - counts.offset) / counts.spread
        variances = np.where(n > 0, rho * (1 - rho) / (counts.spread**2 * n), math.inf)
    return np.where(n > 0, shares, 0.0), variances


def _factor(
    differences: Floats,
    variances: Floats,
    sides: Sequence[tuple[CutCounts, Survival]],
    mechanism: TwoRoundMechanism,
) -> tuple[float, float]:
    """Return the variance factor kappa of differences, measured or bounded, and its freedom."""
    if max(curve.counts.symbols.shape[1] for _, curve in sides) > 2:
        return 1.0, math.inf  # with one report per device lifetime, windows share no noise
    with np.errstate(divide="ignore"):
        weights = np.where(np.isfinite(variances), 1 / variances, 0.0)
    measured = replicate_factor(differences, weights)
    if measured is None:
        return max(curve.kappa for _, curve in sides), math.inf
    # repetition does not remove each report's fresh noise; its maximum variance is 1/4
    least = 4 * mechanism.p2 * mechanism.q2 / PROBABILITY_SCALE**2
    return max(least, measured[0]), measured[1]


def _mean_slope(curve: Survival) -> tuple[float, Floats]:
    weights = strata_weights(curve.counts.number)
    value = float(weights @ curve.shares)
    if curve.counts.number.none != "apart":
        return value, weights
    whole = max(float(curve.shares[0]), 1e-9)
    slope = weights / whole
    slope[0] -= value / whole**2
    return value / whole, slope
