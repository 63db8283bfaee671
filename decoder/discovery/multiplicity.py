"""Correct for multiplicity where the search itself decides how many strings are tested.

A string that ended at level l was chosen by the groups up to l, and its p-value comes from later
groups. How many end at the levels after l is decided by those same later groups, so that the
number of all tests is no number to divide alpha by. What is spent at level l must follow from the
groups up to l alone: Bonferroni's share, with room left for as many strings as the search can keep.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from decoder.discovery.search import BEAM
from decoder.typing import Flags, Floats, Indices


class LevelDecision(NamedTuple):
    """The test's decision on each string, arrays of shape (M,).

    detected: by Holm's rule within each level.  adjusted: p-values; least alpha of a detection.
    bounds: p-value at which a string is detected whatever the others are.
    """

    detected: Flags
    adjusted: Floats
    bounds: Floats


def decide_by_level(
    p_values: Floats, levels: Indices, num_levels: int, alpha: float
) -> LevelDecision:
    """Decide so that any string that nobody holds is detected with a chance of alpha at most.

    Level l gets the part c_l of alpha: given the groups up to l, Holm's rule at c_l alpha is wrong
    with that chance at most, and the parts sum to 1 at most. c_l = r_l T_l / (T_l + BEAM) for
    T_l strings that ended there, r_l what earlier levels left; the last level takes the rest.

    Args:
        p_values: (M,), from groups that had no part in choosing the string.
        levels: (M,), the last group that had a part in choosing it, below num_levels.
        num_levels: of the search.
        alpha: in (0, 1).
    """
    adjusted, bounds = np.ones(len(p_values)), np.zeros(len(p_values))
    left = 1.0
    for level in range(num_levels):
        own = levels == level
        size = int(own.sum())
        if not size:
            continue
        part = left if level + 1 == num_levels else left * size / (size + BEAM)
        left -= part
        among_own = _holm(p_values[own])
        adjusted[own] = np.minimum(among_own / part, 1.0)
        bounds[own] = alpha * part / size
    return LevelDecision(adjusted <= alpha, adjusted, bounds)


def _holm(p_values: Floats) -> Floats:
    """Adjusted p-values of Holm's step-down rule (1979), (n,)."""
    order = np.argsort(p_values, kind="stable")
    left = np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * left), 1.0)
    return adjusted
