"""The comparison of a day's report count with earlier days, to detect floods of forged reports.

This detects a flood, but not a few percent of fabricated reports every day.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from sqlalchemy import Connection

from collector.domain.registry import RegisteredSeries, Registry
from collector.store.blocks import BlockRow, load_possible
from collector.store.counters import reports_by_day
from rappor_core.calendar import date_of

HISTORY_DAYS = 28
MIN_DAYS = 3  # the minimum history; with fewer days, nothing is reported
MIN_FACTOR = 1.5
SIGMAS = 6.0
_DAYS_ALIKE = {"day": HISTORY_DAYS, "week": HISTORY_DAYS, "month": 2 * HISTORY_DAYS + 6}
_MAD_OF_NORMAL = 1.4826  # the standard deviation divided by the median absolute deviation


class Growth(NamedTuple):
    """A day with far more reports than usual."""

    entry: RegisteredSeries
    day: str
    reports: int
    usual: int  # the median of the days before this day


def highest_usual(history: Sequence[float], alike: Sequence[float] = ()) -> float:
    """Return the number of reports above which a day is unusual, given earlier days' numbers.

    The limit is six robust standard deviations (at least Poisson's) above the median of
    `history`, and at least 1.5 times that median and any number in `alike` (comparable days).
    """
    middle = median(history)
    deviation = _MAD_OF_NORMAL * median(abs(count - middle) for count in history)
    sigmas = middle + SIGMAS * max(deviation, math.sqrt(middle))
    return max(sigmas, MIN_FACTOR * max([middle, *alike]))


@dataclass(slots=True)
class _Days:
    """A series' reports by day; for a day in a merged block, an assumed and a maximum number."""

    usual: dict[int, float] = field(default_factory=dict)  # the number assumed for a day
    most: dict[int, float] = field(default_factory=dict)  # the maximum that a day may have had

    def add_block(self, block: BlockRow) -> None:
        """Add a block of closed days; only its last day is certain to have reports."""
        mean = block.num_reports / (block.last_day - block.first_day + 1)
        start = max(block.first_day, block.last_day - max(_DAYS_ALIKE.values()))
        self.usual |= dict.fromkeys(range(start, block.last_day + 1), mean)
        self.most |= dict.fromkeys(range(start, block.last_day), mean)
        self.most[block.last_day] = block.num_reports

    def usual_of(self, day: int, period: str) -> tuple[float, float] | None:
        """Return a day's limit (`highest_usual`) and median; None if there is little history."""
        history = [self.usual[d] for d in range(day - HISTORY_DAYS, day) if d in self.usual]
        if len(history) < MIN_DAYS:
            return None
        before = range(day - _DAYS_ALIKE[period], day)
        alike = [d for d in before if period != "day" or (day - d) % 7 == 0]
        limit = highest_usual(history, [self.most[d] for d in alike if d in self.most])
        return limit, median(history)


def find_growth(connection: Connection, registry: Registry) -> list[Growth]:
    """Return every open day, in any series, that has far more reports than the days before it.

    Each day in a block of closed days counts as the block's mean. Comparable days are the same
    weekdays of the four weeks before. A metric with one report per week or month receives reports
    only on some days, so all days in four weeks or two months are comparable. Days with fewer
    reports than `min_reports` are excluded.
    """
    by_series: defaultdict[int, _Days] = defaultdict(_Days)
    for block in load_possible(connection):
        by_series[block.series_id].add_block(block)
    growth = []
    for (series_id, day), reports in sorted(reports_by_day(connection).items()):
        entry, days = registry.by_id[series_id], by_series[series_id]
        usual = days.usual_of(day, entry.metric.period)
        if usual is not None and reports > max(usual[0], entry.metric.min_reports - 1):
            growth.append(Growth(entry, date_of(day).isoformat(), reports, round(usual[1])))
        days.usual[day] = days.most[day] = reports
    return growth
