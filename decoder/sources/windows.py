"""Windows of a series: from files, or asked of a collector day by day or week by week."""

from calendar import monthrange
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from enum import StrEnum
from functools import reduce
from itertools import groupby

from decoder.errors import RemoteError
from decoder.progress import Note, quiet
from decoder.sources.collector_client import fetch_aggregate
from rappor_core.aggregate import Aggregate
from rappor_core.errors import AggregateError

_DAY = timedelta(days=1)
_NOT_YET = ("day_open", "too_few_reports", "too_few_in_a_cohort", "no_closed_days")


class Each(StrEnum):
    """Length of the windows of a series."""

    DAY = "day"
    WEEK = "week"


def windows_of_files(aggregates: Sequence[Aggregate], each: Each) -> list[Aggregate]:
    """Order files by their days, oldest first; weeks add up those of one Monday to Sunday. Raises
    AggregateError for a file that does not say which days it holds."""
    for aggregate in aggregates:
        if aggregate.first_day is None:
            raise AggregateError(
                f"an aggregate of {aggregate.metric!r} has no first_day and last_day, and so no "
                "place in a series; fetch it by rappor aggregate --from DAY --to DAY"
            )
    ordered = sorted(aggregates, key=_start)
    groups = groupby(ordered, key=lambda aggregate: window_end(_start(aggregate), each))
    return [reduce(Aggregate.merge, group) for _, group in groups]


def sum_of(aggregates: Iterable[Aggregate]) -> Aggregate:
    """Add up aggregates, in whatever order they come. Raises AggregateError if they do not fit."""
    return reduce(Aggregate.merge, sorted(aggregates, key=_start))


def windows_of_collector(
    collector: str,
    metric: str,
    each: Each,
    first: date | None,
    last: date | None,
    note: Note = quiet,
) -> Iterator[Aggregate]:
    """Ask a collector for each window of a series with reports, oldest first.

    A collector refuses to cut days that it has merged for having few reports: a window that ends
    in such days is made longer.

    Args:
        collector: its address.
        metric: the name.
        each: length of a window.
        first: None for the first day that is served.
        last: None for the last.
        note: receives what cannot be served.

    Raises:
        RemoteError: any other refusal, and where no window is served.
    """
    if first is None or last is None:
        whole = fetch_aggregate(collector, metric)
        first, last = first or whole.first_day, last or whole.last_day
    if first is None or last is None:
        raise RemoteError(f"the collector does not say which days of metric {metric!r} it serves")
    served = False
    start, end = first, window_end(first, each, last)
    while start <= last:
        try:
            yield fetch_aggregate(collector, metric, first=start, last=end)
            served = True
        except RemoteError as refusal:
            reason, blocks = refusal.problem.get("reason"), refusal.problem.get("blocks", [])
            # of each merged block that the window would have cut, oldest first
            cut = [tuple(map(date.fromisoformat, block)) for block in blocks]
            cut = cut if reason == "window_cuts_block" else []
            if cut and cut[0][0] < start:
                note(f"left out {start} to {cut[0][1]}: {refusal}")
                start = cut[0][1] + _DAY
                end = max(end, window_end(start, each, last))
                continue
            if cut and end < cut[-1][1] <= last:
                end = window_end(cut[-1][1], each, last)
                continue
            if cut or reason in _NOT_YET:
                note(f"left out {start} to {last}: {refusal}")
                break
            if reason != "no_reports":
                raise
        start = end + _DAY
        end = window_end(start, each, last)
    if not served:
        raise RemoteError(f"no window of metric {metric!r} is served from {first} to {last}")


def _start(aggregate: Aggregate) -> date:
    return aggregate.first_day or date.min


def window_end(start: date, each: str, last: date = date.max) -> date:
    """The last day, but not past `last`, of the day, week (to its Sunday) or month from `start`."""
    month = monthrange(start.year, start.month)[1] - start.day if each == "month" else 0
    days = 6 - start.weekday() if each == "week" else month
    return last if (last - start).days <= days else start + timedelta(days=days)
