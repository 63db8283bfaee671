"""Closed form: bounds of the parts of one sum."""

from __future__ import annotations

import numpy as np

from disclosure.typing import Floats


def sum_intervals(
    low: Floats, high: Floats, total_low: float, total_high: float
) -> tuple[Floats, Floats]:
    """What the bounds of all parts and of their sum tell of each part.

    A part is at least the least sum less the most that the others are, and at most the other way
    round: the optimum of the two linear programs, where a solution exists.

    Args:
        low, high: (n,) bounds of the parts; `high` may be infinite.
        total_low, total_high: of their sum.

    Returns:
        The least and the largest value of each part.
    """
    infinite = np.isinf(high)
    finite_sum = float(high[~infinite].sum())
    others_infinite = int(infinite.sum()) - infinite.astype(int)
    others_high = np.where(others_infinite > 0, np.inf, finite_sum - np.where(infinite, 0.0, high))
    least = np.maximum(low, total_low - others_high)
    most = np.minimum(high, total_high - (float(low.sum()) - low))
    return least, most
