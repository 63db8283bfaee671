"""Frequent values that no list holds: the part that they add to the covariance of a joint table.

The place for values that are not listed has the mean bits of a random string. That is right for
many values together; one that is frequent has bits of its own in each cohort, which all its reports
share, so that the error does not fall with the number of reports. Its size is seen in what the fit
leaves of each bit (docs/method.md, "Two linked metrics").
"""

from __future__ import annotations

import numpy as np

from decoder.association.linked import UNLISTED, Side
from decoder.typing import Floats, Indices

LEAST_FREE = 0.1  # of the equations of a side, after its values are fitted


def heavy_unlisted(
    sides: tuple[Side, Side],
    cohorts: tuple[int, ...],
    reports: Floats,
    sums: Floats,
    shares: Floats,
    noise: tuple[tuple[float, bool], ...],
) -> Floats | None:
    """Covariance of a joint table that frequent unlisted values of the first side add, (M1 M2,
    M1 M2).

    sums: debiased co-occurrences S_c, the first side first.  shares: (M1, M2).
    noise: how often the covariance of a report counts, with and without fresh noise.
    Returns None where the first side lists all its values, or nothing is seen of heavy ones.
    """
    first, second = sides
    if first.values[-1] != UNLISTED:
        return None
    mean = float(first.designs[cohorts[0], 0, -1])
    k, values = first.designs.shape[1], len(first.values)
    free = max(1 - values / (k * len(cohorts)), LEAST_FREE)
    seen = np.zeros((len(second.values), len(second.values)))
    for place, cohort in enumerate(cohorts):
        number = reports[place]
        bits, across = first.extended(cohort)[1:], second.weighted(cohort)
        expected = bits @ shares @ second.extended(cohort).T
        left = (sums[place, 1:] / number - expected) @ across
        chance = np.zeros((across.shape[0], across.shape[0]))
        for times, fresh in noise:
            chance += times * _of_a_bit(sides, cohort, shares, expected, fresh=fresh)
        seen += number * (left.T @ left / free) - across.T @ chance @ across
    seen /= reports.sum() * k * mean * (1 - mean)
    scales, axes = np.linalg.eigh((seen + seen.T) / 2)
    if scales[-1] <= 0:
        return None
    held = (axes * np.maximum(scales, 0.0)) @ axes.T
    rows = np.zeros((values, values))
    for place, cohort in enumerate(cohorts):
        across = first.weighted(cohort)[1:]
        rows += reports[place] ** 2 * mean * (1 - mean) * across.T @ across
    return np.asarray(np.kron(rows, held))


def _of_a_bit(
    sides: tuple[Side, Side], cohort: int, shares: Floats, expected: Floats, *, fresh: bool
) -> Floats:
    """Covariance of one report's (bit of the first) times (1, bits of the second), all summed."""
    bits, others = (side.extended(cohort) for side in sides)
    spread = sides[0].spread(bits, fresh=fresh)[1:]
    held = (bits[1:] ** 2 + spread).sum(axis=0) @ shares
    whole = (others * held) @ others.T
    whole += np.diag(sides[1].spread(others, fresh=fresh) @ held)
    return np.asarray(whole - expected.T @ expected)


def swapped(covariance: Floats, shape: tuple[int, int]) -> Floats:
    """Reorder a covariance of the cells of a table (M1, M2), row by row, to that of its
    transpose (M2, M1)."""
    place: Indices = np.arange(shape[0] * shape[1]).reshape(shape).T.ravel()
    return np.asarray(covariance[np.ix_(place, place)])
