"""Densities over levels of cells: estimates of each level, from devices that drew it, reconciled.

From coarse to fine: a family gets the share of its parent and divides it by the projection of its
own estimates. A parent that cannot be told from zero is pruned: its children are not looked at one
by one, and share alike what little it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decoder.errors import DecodeError
from decoder.simplex import project_simplex

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

PRUNE_BELOW = 2.0  # standard errors


@dataclass(frozen=True)
class LevelEstimate:
    """What the devices of one level say: unbiased shares and standard errors, (n,) each."""

    shares: Floats
    std_errors: Floats


def reconcile(
    levels: Sequence[LevelEstimate], parents: Sequence[Indices], prune: float = PRUNE_BELOW
) -> list[Floats]:
    """Make shares of every level that are positive, sum to 1, and add up within families.

    levels: coarse to fine.  parents: for each level but the first, the index in the level above of
    the parent of each cell.  prune: standard errors below which a parent is not divided.
    Raises DecodeError for parents that do not fit.
    """
    if len(parents) != len(levels) - 1:
        raise DecodeError(f"{len(levels)} levels need {len(levels) - 1} lists of parents")
    shares = [project_simplex(levels[0].shares)]
    for above, below, parent in zip(levels, levels[1:], parents, strict=False):
        if len(parent) != len(below.shares) or parent.max() >= len(above.shares):
            raise DecodeError(f"{len(parent)} parents do not fit {len(below.shares)} cells")
        shares.append(_divide(shares[-1], prune * above.std_errors, below.shares, parent))
    return shares


def _divide(above: Floats, threshold: Floats, estimates: Floats, parent: Indices) -> Floats:
    """Give the share of each parent (p,) to its children (c,)."""
    order = np.argsort(parent, kind="stable")
    starts = np.searchsorted(parent[order], np.arange(len(above) + 1))
    shares = np.zeros(len(estimates))
    for index in np.flatnonzero(above > 0):
        family = order[starts[index] : starts[index + 1]]
        if above[index] < threshold[index]:
            shares[family] = above[index] / max(len(family), 1)
        else:
            shares[family] = project_simplex(estimates[family], float(above[index]))
    return shares
