"""The aggregates of a location metric, by slot and window."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from enum import StrEnum
from itertools import product
from typing import Any

from decoder.errors import DecodeError
from decoder.grid_cells import location_of
from decoder.progress import Note, quiet
from decoder.sources.windows import window_end
from rappor_core.aggregate import Aggregate, periods_ended
from rappor_core.errors import RapporError

DayRange = tuple[date | None, date | None]
SlotWindow = tuple[str, DayRange]
Groups = dict[SlotWindow, list[Aggregate]]
Fetch = Callable[[str, date | None, date | None], Aggregate]


class SplitName(StrEnum):
    """Length of the windows into which the days of a map are divided."""

    WHOLE = "whole"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


def group_by_slot(
    aggregates: Iterable[Aggregate], metric: str, slots: Sequence[str], note: Note = quiet
) -> Groups:
    """Group the levels of each slot and window, those with reports only: earlier windows first, in
    each the slots in the order of their declaration.

    Args:
        aggregates: of the metric.
        metric: its name.
        slots: those that are wanted, none for all.
        note: receives windows left out as they lack the finest level.

    Raises:
        DecodeError: a slot without reports; reports over two grids, or with `no_data` and without.
    """
    groups: Groups = defaultdict(list)
    for one in aggregates:
        if one.num_reports:
            groups[location_of(one)[1].slot, (one.first_day, one.last_day)].append(one)
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
    finest, wanted = _finest_level(groups, metric), {}
    for (slot, days), found in groups.items():
        if slots and slot not in slots:
            continue
        if any(location_of(one)[1].level == finest for one in found):
            wanted[slot, days] = found
        else:
            named = " to ".join(str(day) for day in days if day)
            note(f"slot {slot!r}, {named}: left out, as it has no reports of level {finest}")

    def order(item: tuple[SlotWindow, list[Aggregate]]) -> tuple[date, date, int]:
        (slot, (first, last)), found = item
        declared = [one.name for one in location_of(found[0])[1].slots]
        return first or date.min, last or date.min, declared.index(slot)

    return dict(sorted(wanted.items(), key=order))


def _finest_level(groups: Groups, metric: str) -> int:
    """Of all that was reported: one table and one map hold values of one grid and level."""
    parts = [location_of(one) for found in groups.values() for one in found]
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
    """Fetch every sub-metric in each part of the window.

    Days are closed and merged for each slot and level alone, so what is served of a part begins and
    ends on other days in each: all of it is of the part that was asked for.

    Args:
        metric: the declared name, without slot and level.
        listed: the collector's metrics, as GET /v1/metrics gives them.
        fetch: reads one sub-metric in one part.
        window: first and last day, None for what is served.
        split: how the window is divided.
        note: called with a sentence on what is left out.

    Raises:
        DecodeError: nothing is served of the window, or it ends before it begins.
        RapporError: what `fetch` raises, unless the part alone is not served.
    """
    if window[0] and window[1] and window[0] > window[1]:
        raise DecodeError(f"the first day, {window[0]}, is after the last, {window[1]}")
    rows = {row["name"]: row for row in listed}  # of versions, the last is current
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
        if until < part[0] or not periods_ended(period, *part):  # a report bears its period's last
            continue
        try:
            yield replace(fetch(name, part[0], until), first_day=part[0], last_day=part[1])
        except RapporError as error:
            # a collector has nothing for this window alone; a wrong key, or none, spoils all
            details = getattr(error, "problem", None) or getattr(error, "details", None) or {}
            if split is SplitName.WHOLE or "reason" not in details:
                raise
            note(f"{name}, {part[0]} to {part[1]}: {error}")


def _served(
    metric: str, listed: Sequence[dict[str, Any]], rows: Mapping[str, dict[str, Any]], note: Note
) -> dict[str, tuple[date, date]]:
    """First and last day served of each sub-metric; notes how to get at other versions."""
    own = {name: row for name, row in rows.items() if name.partition("/")[0] == metric}
    if not own:
        places = {name.partition("/")[0] for name in rows if "/" in name}
        raise DecodeError(
            f"no location metric {metric!r} is known here; there are "
            f"{', '.join(sorted(places)) or 'none'}"
        )
    older = ""
    for one in listed:
        if one["served"] and one["name"] in own and one != own[one["name"]]:
            older = (
                f"older versions of {metric!r} have reports, which mean something else; for a map "
                f"of them: rappor aggregate {one['name']} --params-id {one['params_id']} -o FILE, "
                f"then rappor density {metric} --aggregate FILE"
            )
    spans = {
        name: (date.fromisoformat(served["first_day"]), date.fromisoformat(served["last_day"]))
        for name, row in own.items()
        if (served := row["served"])
    }
    if not spans:
        most = max(row["accepted"] for row in own.values())
        raise DecodeError(
            f"no closed day of {metric!r} is served; at most {most:,} reports of a slot and level "
            "were accepted. Days close by themselves after accept_days, or by `rappor close DAY`, "
            "and are held back until they have min_reports together, and "
            "min_reports_per_cohort in each cohort (metrics.toml)"
            f"{older and '; '}{older}"
        )
    if older:
        note(f"left out: {older}")
    return spans


def _parts(first: date, last: date, split: SplitName) -> Iterator[tuple[date, date]]:
    """Divide a window; the first and the last part may be short."""
    if split is SplitName.WHOLE:
        yield first, last
        return
    while first <= last:
        end = window_end(first, split, last)
        yield first, end
        first = end + timedelta(days=1)
