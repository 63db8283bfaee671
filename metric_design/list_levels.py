"""Levels of the rules of false discovery rates (`bh`, `fdr`), in drawn lists of candidates.

Such a rule finds the more of a value the more of the other values it finds. So whole lists are
drawn, always the same ones: scores of the values that somebody holds, and of the others the
200 smallest p-values (order statistics of uniform numbers): a rule that accepts more of them finds
thousands of values, and is predicted a little too strict.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from decoder.inference.multiple_testing import SHORT_LIST, STOREY_LAMBDA
from decoder.typing import Floats

_LISTS = 64
_SMALLEST = 200  # p-values of values that nobody holds, in a list


class DrawnLists(NamedTuple):
    """Drawn lists, of n held values and others.

    scores: of the held values, in standard errors, (n, lists).  lot: uniform, whether a value is
    mistaken for another, (n, lists).  nobody: the smallest p-values of the others, increasing,
    (z, lists).  above: how many of the others are above Storey's lambda, (lists,).
    """

    scores: Floats
    lot: Floats
    nobody: Floats
    above: Floats


def draw_lists(means: Floats, deviations: Floats, candidates: int) -> DrawnLists:
    """Draw lists.

    Args:
        means: expected scores of the held values, in standard errors of nobody's value, (n,).
        deviations: of these scores, (n,).
        candidates: length of a list.
    """
    rng = np.random.default_rng(0)
    others = max(candidates - len(means), 0)
    noise = rng.standard_normal((len(means), _LISTS))
    scores = means[:, None] + deviations[:, None] * noise
    gaps = rng.standard_exponential((min(others, _SMALLEST), _LISTS))
    smallest = np.minimum(np.cumsum(gaps, axis=0) / max(others, 1), 1.0)
    above = rng.binomial(others, 1 - STOREY_LAMBDA, _LISTS).astype(np.float64)
    return DrawnLists(scores, rng.random(scores.shape), smallest, above)


def list_levels(
    p: Floats, lists: DrawnLists, candidates: int, alpha: float, *, storey: bool
) -> Floats:
    """The p-value at or below which each list's rule accepts, or would accept one value, (lists,).

    Args:
        p: p-values of the held values, (n, lists).
        lists: drawn.
        candidates: length of a list.
        alpha: level of the rule.
        storey: rule `fdr`, which estimates how many values nobody holds; otherwise `bh`.
    """
    share = np.ones(_LISTS)
    if storey and candidates >= SHORT_LIST:
        over = (p > STOREY_LAMBDA).sum(axis=0) + lists.above + 1
        share = over / ((1 - STOREY_LAMBDA) * candidates)
    ranked = np.sort(np.concatenate([p, lists.nobody]), axis=0)
    ranks = np.arange(1, len(ranked) + 1)[:, None]
    passed = ranked <= alpha * ranks / (candidates * share)
    accepted = np.where(passed, ranks, 1).max(axis=0)
    return np.asarray(np.minimum(alpha * accepted / (candidates * share), STOREY_LAMBDA))
