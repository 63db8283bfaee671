"""The windows of a series, from files or a collector; location aggregates, by slot and window."""

from calendar import monthrange
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from enum import StrEnum
from functools import reduce
from itertools import groupby, product
from typing import Any

from decoder.errors import DecodeError, RemoteError
from decoder.grid_cells import location_of
from decoder.progress import Note, quiet
from decoder.sources.collector_client import fetch_aggregate
from rappor_core.aggregate import Aggregate, periods_ended
from rappor_core.errors import AggregateError, RapporError

_DAY = timedelta(days=1)
_NOT_YET = ("day_open", "too_few_reports", "too_few_in_a_cohort", "no_closed_days")


class Each(StrEnum):
    """The length of the windows of a series."""

    DAY = "day"
    WEEK = "week"


def windows_of_files(aggregates: Sequence[Aggregate], each: Each) -> list[Aggregate]:
    """Order files by their days, oldest first; weeks are summed from Monday to Sunday.

    Raises AggregateError if a file has no days."""
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
    """Sum aggregates given in any order. Raises AggregateError if they do not match."""
    return reduce(Aggregate.merge, sorted(aggregates, key=_start))


def windows_of_collector(
    collector: str,
    metric: str,
    each: Each,
    first: date | None,
    last: date | None,
    note: Note = quiet,
) -> Iterator[Aggregate]:
    """Request each window of a series with reports from a collector, oldest first.

    A window that ends inside a merged block of days with few reports is extended. `first` and
    `last` are None for the first or last served day; `note` receives the windows that are not
    served. Raises RemoteError on any other error, or if no window is served."""
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
            # the merged blocks that the window would have split, oldest first
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
    """Return the last day of the day, week (to Sunday) or month of `start`, at most `last`."""
    month = monthrange(start.year, start.month)[1] - start.day if each == "month" else 0
    days = 6 - start.weekday() if each == "week" else month
    return last if (last - start).days <= days else start + timedelta(days=days)


DayRange = tuple[date | None, date | None]
SlotWindow = tuple[str, DayRange]
Groups = dict[SlotWindow, list[Aggregate]]
Fetch = Callable[[str, date | None, date | None], Aggregate]


class SplitName(StrEnum):
    """The length of the windows into which the days of a map are divided."""

    WHOLE = "whole"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


def group_by_slot(
    aggregates: Iterable[Aggregate], metric: str, slots: Sequence[str], note: Note = quiet
) -> Groups:
    """Group the levels with reports by slot and window: earlier windows first, slots as declared.

    Args:
        aggregates: The aggregates of one metric.
        metric: The metric's name, for errors.
        slots: The wanted slots; empty for all.
        note: A callback, called for windows that are skipped because they lack the finest level.

    Raises:
        DecodeError: A slot has no reports, or reports do not belong together.
    """
    groups: Groups = defaultdict(list)
    for aggregate in aggregates:
        if aggregate.num_reports:
            groups[
                location_of(aggregate)[1].slot, (aggregate.first_day, aggregate.last_day)
            ].append(aggregate)
    if not groups:
        raise DecodeError(
            f"no reports of {metric!r} in this window; choose another, or wait until its days close"
        )
    known = {slot for slot, _ in groups}
    for slot in slots:
        if slot not in known:
            raise DecodeError(
                f"slot {slot!r}: no reports of {metric!r} in it; there are some in "
                f"{', '.join(map(repr, sorted(known)))}"
            )
    finest, chosen = _finest_level(groups, metric), {}
    for (slot, days), group in groups.items():
        if slots and slot not in slots:
            continue
        if any(location_of(part)[1].level == finest for part in group):
            chosen[slot, days] = group
        else:
            named = " to ".join(str(day) for day in days if day)
            note(f"slot {slot!r}, {named}: left out, as it has no reports of level {finest}")

    def order(item: tuple[SlotWindow, list[Aggregate]]) -> tuple[date, date, int]:
        (slot, (first, last)), group = item
        declared = [declared_slot.name for declared_slot in location_of(group[0])[1].slots]
        return first or date.min, last or date.min, declared.index(slot)

    return dict(sorted(chosen.items(), key=order))


def _finest_level(groups: Groups, metric: str) -> int:
    """Return the finest level; raise DecodeError unless all reports use the same grid."""
    parts = [location_of(aggregate) for group in groups.values() for aggregate in group]
    problem = ""
    if len({(place.grid, place.pairs) for _, place in parts}) > 1:
        problem = f"the reports of {metric!r} are over several grids"
    elif len({part.no_data for part, _ in parts}) > 1:
        problem = f"some reports of {metric!r} tell `no_data` from `other` and some do not"
    if problem:
        raise DecodeError(
            f"{problem}, as its definition changed; choose a window (--from, --to), or files, of "
            "one of them"
        )
    return max(place.level for _, place in parts)


def fetch_parts(
    metric: str,
    listed: Sequence[dict[str, Any]],
    fetch: Fetch,
    window: DayRange,
    split: SplitName,
    note: Note = quiet,
) -> Iterator[Aggregate]:
    """Fetch the aggregate of each sub-metric (slot and level) in each part of the window.

    Days are closed and merged separately for each slot and level, so a part's first and last served
    day may differ between them.

    Args:
        metric: The declared name, without slot and level.
        listed: The collector's metrics, as returned by GET /v1/metrics.
        fetch: A function that reads one sub-metric in one part.
        window: The first and last day; None for all that is served.
        split: How the window is divided.
        note: A callback, called with a sentence about skipped data.

    Raises:
        DecodeError: Nothing is served. Errors from `fetch` are passed on.
    """
    if window[0] and window[1] and window[0] > window[1]:
        raise DecodeError(f"the first day, {window[0]}, is after the last, {window[1]}")
    rows = {row["name"]: row for row in listed}  # the last version is the current version
    spans = _served(metric, listed, rows, note)
    earliest, latest = min(s[0] for s in spans.values()), max(s[1] for s in spans.values())
    if (window[0] or earliest) > latest or (window[1] or latest) < earliest:
        raise DecodeError(
            f"no reports of {metric!r} are served from {window[0] or 'the first day'} to "
            f"{window[1] or 'the last'}, only from {earliest} to {latest}; choose a window of those"
        )
    start, end = max(window[0] or earliest, earliest), latest
    for name, part in product(spans, list(_parts(start, window[1] or end, split))):
        until = part[1] if window[1] else min(part[1], spans[name][1])
        period = rows[name]["definition"]["period"]
        if until < part[0] or not periods_ended(period, *part):  # a report has its period's last
            continue
        try:
            yield replace(fetch(name, part[0], until), first_day=part[0], last_day=part[1])
        except RapporError as error:
            # the collector has nothing for this window; other errors, as a wrong key, affect all
            details = getattr(error, "problem", None) or getattr(error, "details", None) or {}
            if split is SplitName.WHOLE or "reason" not in details:
                raise
            note(f"{name}, {part[0]} to {part[1]}: {error}")


def _served(
    metric: str, listed: Sequence[dict[str, Any]], rows: Mapping[str, dict[str, Any]], note: Note
) -> dict[str, tuple[date, date]]:
    """Return the first and last served day of each sub-metric; note how to fetch other versions."""
    of_metric = {name: row for name, row in rows.items() if name.partition("/")[0] == metric}
    if not of_metric:
        places = {name.partition("/")[0] for name in rows if "/" in name}
        raise DecodeError(
            f"no location metric {metric!r} is known here; there are "
            f"{', '.join(sorted(places)) or 'none'}"
        )
    older = ""
    for old in listed:
        if old["served"] and old["name"] in of_metric and old != of_metric[old["name"]]:
            older = (
                f"older versions of {metric!r} have reports, which mean something else; for a map "
                f"of them: rappor aggregate {old['name']} --params-id {old['params_id']} -o FILE, "
                f"then rappor density {metric} --aggregate FILE"
            )
    spans = {
        name: (date.fromisoformat(served["first_day"]), date.fromisoformat(served["last_day"]))
        for name, row in of_metric.items()
        if (served := row["served"])
    }
    if not spans:
        most = max(row["accepted"] for row in of_metric.values())
        raise DecodeError(
            f"no closed day of {metric!r} is served; at most {most:,} reports of a slot and level "
            "were accepted. Days close automatically after accept_days, or by `rappor close DAY`, "
            "and are held back until they have min_reports together, and "
            "min_reports_per_cohort in each cohort (metrics.toml)"
            f"{older and '; '}{older}"
        )
    if older:
        note(f"left out: {older}")
    return spans


def _parts(first: date, last: date, split: SplitName) -> Iterator[tuple[date, date]]:
    if split is SplitName.WHOLE:
        yield first, last
        return
    while first <= last:
        end = window_end(first, split, last)
        yield first, end
        first = end + timedelta(days=1)
