"""Windows of a series: from files, or asked of a collector day by day or week by week."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from enum import StrEnum
from functools import reduce
from itertools import groupby

from rappor_cli.remote import RemoteError, fetch_aggregate
from rappor_core.aggregate import Aggregate


class Each(StrEnum):
    """Length of a window."""

    DAY = "day"
    WEEK = "week"


def windows_of_files(aggregates: Sequence[Aggregate], each: Each) -> list[Aggregate]:
    """Oldest first; files of one week (Monday to Sunday) are added when windows are weeks.

    Files without days keep their order, one window each.
    """
    if any(aggregate.first_day is None for aggregate in aggregates):
        return list(aggregates)
    ordered = sorted(aggregates, key=_start)
    groups = groupby(ordered, key=lambda aggregate: _end(_start(aggregate), each, date.max))
    return [reduce(Aggregate.merge, group) for _, group in groups]


def windows_of_collector(
    collector: str, metric: str, each: Each, first: date, last: date
) -> Iterator[Aggregate]:
    """Ask for each window; one that is not served alone is joined with the next.

    A collector refuses to cut days that it has merged for having few reports. What is left at the
    end and cannot be served is told on stderr.
    """
    start, end = first, _end(first, each, last)
    while start <= last:
        try:
            yield fetch_aggregate(collector, metric, first=start, last=end)
        except RemoteError as error:
            if end >= last:
                print(f"left out {start} to {end}: {error}", file=sys.stderr)
                return
            end = _end(end + timedelta(days=1), each, last)
            continue
        start = end + timedelta(days=1)
        end = _end(start, each, last)


def _start(aggregate: Aggregate) -> date:
    return aggregate.first_day or date.min


def _end(start: date, each: Each, last: date) -> date:
    """The day, or the Sunday of its week, but not past `last`."""
    days = 6 - start.weekday() if each is Each.WEEK else 0
    return min(start + timedelta(days=days), last)
