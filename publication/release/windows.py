"""Windows that can be subtracted from each other.

Reports of a window that is published are known; two windows that share a boundary, or are linked by
others that do, give those of every stretch between two boundaries. Each window is an edge between
its first day and the day after its last; what can be computed are the stretches between boundaries
of one connected component.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise


@dataclass(frozen=True)
class Window:
    """Days from `first` to `last`, both in it, and the reports of them."""

    first: date
    last: date
    reports: int

    def overlaps(self, other: Window) -> bool:
        """Whether they share a day, and are not the same days."""
        same = (self.first, self.last) == (other.first, other.last)
        return not same and self.first <= other.last and other.first <= self.last


def admit_windows(
    new: Sequence[Window], published: Iterable[Window], min_reports: int, *, by_reports: bool
) -> list[bool]:
    """Which windows of one table may be published beside those that are, and each other.

    Args:
        new: in the order of preference.
        published: windows of the same table in earlier releases.
        min_reports: of every stretch that can be computed from what is published.
        by_reports: False: a window that overlaps another is not admitted at all.

    Returns:
        A flag for each of `new`.
    """
    known = list(published)
    admitted = []
    for window in new:
        again = any((one.first, one.last) == (window.first, window.last) for one in known)
        good = again or (
            smallest_stretch([*known, window]) >= min_reports
            if by_reports
            else not any(window.overlaps(one) for one in known)
        )
        admitted.append(good)
        if good and not again:
            known.append(window)
    return admitted


def smallest_stretch(windows: Sequence[Window]) -> float:
    """The fewest reports of a stretch of days that the windows give by sums and differences.

    A stretch that can be computed is a sum of those between neighbouring boundaries of its
    component, so that these are the smallest. Infinite for no windows.
    """
    links: dict[date, list[tuple[date, int]]] = defaultdict(list)
    for window in windows:
        end = window.last + timedelta(days=1)
        links[window.first].append((end, window.reports))
        links[end].append((window.first, -window.reports))
    smallest = float("inf")
    left = set(links)
    while left:
        position = _positions(left.pop(), links)
        left -= position.keys()
        for (_, low), (_, high) in pairwise(sorted(position.items())):
            smallest = min(smallest, high - low)
    return smallest


def _positions(start: date, links: dict[date, list[tuple[date, int]]]) -> dict[date, int]:
    """Reports between `start` and each boundary that is linked to it."""
    found, waiting = {start: 0}, [start]
    while waiting:
        day = waiting.pop()
        for other, reports in links[day]:
            if other not in found:
                found[other] = found[day] + reports
                waiting.append(other)
    return found
