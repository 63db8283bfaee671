"""Choose where a column of numbers is cut into intervals."""

from __future__ import annotations

import numpy as np

from disclosure.typing import Floats

_DIGITS = 4  # of a cut, if they suffice


def quantile_cuts(numbers: Floats, intervals: int) -> tuple[float, ...]:
    """Cut a column at quantiles, midway between neighbours in rank; cuts that would leave an
    interval empty are dropped.

    As many intervals as numbers have a cut between any two neighbours: more tell nothing further.
    """
    intervals = min(intervals, len(numbers))
    cuts = np.unique(np.quantile(numbers, np.arange(1, intervals) / intervals))
    counts = np.bincount(np.searchsorted(cuts, numbers, side="left"), minlength=len(cuts) + 1)
    kept = cuts[counts[:-1] > 0]
    return _shortened(kept[kept < numbers.max()], numbers)


def joined_cuts(cuts: tuple[float, ...], numbers: Floats, floor: int) -> tuple[float, ...]:
    """Drop the cuts that leave an interval with fewer numbers than the floor."""
    counts = np.bincount(np.searchsorted(cuts, numbers, side="left"), minlength=len(cuts) + 1)
    kept, held, left = [], 0, len(numbers)
    for cut, count in zip(cuts, counts.tolist(), strict=False):
        held, left = held + count, left - count
        if held >= floor and left >= floor:
            kept.append(cut)
            held = 0
    return tuple(kept)


def _shortened(cuts: Floats, numbers: Floats) -> tuple[float, ...]:
    """The cuts with as few digits as leave every number in its interval."""
    wanted = np.searchsorted(cuts, numbers, side="left")
    for digits in range(_DIGITS, 17):
        short = np.array([float(f"{cut:.{digits}g}") for cut in cuts])
        rising = (np.diff(short) > 0).all()
        if rising and (np.searchsorted(short, numbers, side="left") == wanted).all():
            return tuple(short.tolist())
    return tuple(cuts.tolist())
