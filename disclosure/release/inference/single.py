"""Inference from a table without shared people: a sum and its parts, in closed form."""

from bisect import bisect_left

import numpy as np

from disclosure.release.inference.facts import PublicTable
from disclosure.release.inference.targets import EXACT
from disclosure.typing import Floats, Integers


def sum_intervals(
    low: Floats, high: Floats, total_low: float, total_high: float
) -> tuple[Floats, Floats]:
    """Compute the bounds for each part that follow from all parts' bounds and the sum's bounds.

    A part is at least the minimum of the sum minus the maximum of the others, and at most the
    reverse. This is the optimum of the two linear programs, if a solution exists.

    Args:
        low: The lower bounds of the parts, (n,).
        high: Their upper bounds, (n,), which may be infinite.
        total_low: The lower bound of their sum.
        total_high: The upper bound of their sum.

    Returns:
        The minimum and the maximum of each part.
    """
    infinite = np.isinf(high)
    finite_sum = float(high[~infinite].sum())
    others_infinite = int(infinite.sum()) - infinite.astype(int)
    others_high = np.where(others_infinite > 0, np.inf, finite_sum - np.where(infinite, 0.0, high))
    least = np.maximum(low, total_low - others_high)
    most = np.minimum(high, total_high - (float(low.sum()) - low))
    return least, most


def single_intervals(table: PublicTable) -> tuple[Floats, Floats]:
    """Return the minimum and maximum share of each row implied by a single table, (rows,) each."""
    total, hidden = table.totals, table.hidden
    low = np.where(hidden, 0.0, table.low)
    high = np.where(hidden, 1.0, table.high)
    low_sum, high_sum = (1.0, 1.0) if table.complete else (0.0, 1.0)  # a report has one value
    shown_total = total & ~hidden
    if shown_total.any() and not table.complete:
        low_sum, high_sum = float(table.low[shown_total][0]), float(table.high[shown_total][0])
    parts = ~total
    low_sum, high_sum = _widened(low[parts], high[parts], low_sum, high_sum, table.step)
    least, most = low.copy(), high.copy()
    least[parts], most[parts] = sum_intervals(low[parts], high[parts], low_sum, high_sum)
    if total.any() and not shown_total.any():
        least[total] = low_sum if table.complete else low[parts].sum()
        most[total] = high_sum if table.complete else high[parts].sum()
    return least, most


def exposed_rows(table: PublicTable) -> tuple[Integers, Floats, Floats]:
    """Return the hidden rows that a reader can infer too precisely, and intervals of all rows.

    The sum of all rows is not secret if they cover everyone."""
    least, most = single_intervals(table)
    secret = table.hidden & ~(table.totals & table.complete)
    narrow = most - least < table.width - EXACT
    return np.flatnonzero(secret & narrow), least, most


def protect_single(table: PublicTable) -> PublicTable:
    """Suppress the smallest rows until all hidden rows are safe or no row remains."""
    total = table.totals
    order = np.argsort(table.persons, kind="stable")
    cells, totals = (order[table.loose[order] & (total[order] == kind)] for kind in (False, True))
    waiting = np.concatenate([cells, totals])

    def is_safe(count: int) -> bool:
        return not len(exposed_rows(table.suppressed(waiting[:count]))[0])

    if is_safe(0) or not is_safe(len(waiting)):
        return table
    counts = range(len(waiting) + 1)  # safe rows stay safe with more suppression
    return table.suppressed(waiting[: bisect_left(counts, True, key=is_safe)])


def _widened(
    low: Floats, high: Floats, low_sum: float, high_sum: float, step: float
) -> tuple[float, float]:
    """Relax bounds of a sum that contradict the parts, by the minimum plus one step."""
    if low.sum() > high_sum:
        high_sum = float(low.sum()) + step
    if high.sum() < low_sum:
        low_sum = float(high.sum()) - step
    return low_sum, high_sum
