"""A check of each day's reports against the days before it: forgeries come in numbers.

It sees a flood, not a few per cent of forgeries that come every day.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from sqlalchemy import Connection

from collector.service.registry import Registry
from collector.store.blocks import load_blocks
from collector.store.daily import reports_by_day
from rappor_core.calendar import date_of

HISTORY_DAYS = 28
LEAST_DAYS = 3  # of history; with fewer nothing is said
LEAST_FACTOR = 1.5
SIGMAS = 6.0
_MAD_OF_NORMAL = 1.4826  # standard deviation over median absolute deviation


@dataclass(frozen=True, slots=True)
class Growth:
    """A day with far more reports than usual. usual: the median of the days before it."""

    metric: str
    params_id: str
    day: str
    reports: int
    usual: int


def highest_usual(history: Sequence[float]) -> float:
    """The number of reports of a day beyond which it is told, from those of earlier days.

    Six robust standard deviations above the median (at least those of a Poisson count), and half
    as much again as the median at least.
    """
    middle = median(history)
    deviation = _MAD_OF_NORMAL * median(abs(count - middle) for count in history)
    return max(LEAST_FACTOR * middle, middle + SIGMAS * max(deviation, math.sqrt(middle)))


def find_growth(connection: Connection, registry: Registry) -> list[Growth]:
    """Every open day with far more reports than the days before it, of all series.

    A block of closed days counts as its mean for each of its days. Days with fewer reports than
    `min_reports` are not told.
    """
    by_series: defaultdict[int, dict[int, float]] = defaultdict(dict)
    for block in load_blocks(connection):
        mean = block.num_reports / (block.last_day - block.first_day + 1)
        start = max(block.first_day, block.last_day - HISTORY_DAYS)
        for day in range(start, block.last_day + 1):
            by_series[block.series_id][day] = mean
    found = []
    for (series_id, day), reports in sorted(reports_by_day(connection).items()):
        entry, days = registry.by_id[series_id], by_series[series_id]
        history = [days[d] for d in range(day - HISTORY_DAYS, day) if d in days]
        days[day] = reports
        if len(history) < LEAST_DAYS or reports < entry.metric.min_reports:
            continue
        if reports > highest_usual(history):
            name, when = entry.metric.name, date_of(day).isoformat()
            found.append(Growth(name, entry.params_id, when, reports, round(median(history))))
    return found
