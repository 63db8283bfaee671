"""Export raw reports of metrics that keep them: of closed days only, page by page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date

from sqlalchemy import Connection

from collector.domain.registry import RegisteredSeries, load_registry
from collector.errors import NotServedError
from collector.store.raw import FIRST, count_raw, raw_days, raw_page
from rappor_core.calendar import date_of, day_of
from rappor_core.wire.json import report_fields
from rappor_core.wire.report import Report

PAGE = 1_000  # reports read in one short transaction

Open = Callable[[], AbstractContextManager[Connection]]


@dataclass(frozen=True, slots=True)
class Export:
    """The plan of an export. days: first and last, inclusive. num_reports: how many reports it
    will hold."""

    entry: RegisteredSeries
    days: tuple[int, int]
    num_reports: int


def plan_export(
    connection: Connection,
    name: str,
    params_id: str | None = None,
    first: date | None = None,
    last: date | None = None,
) -> Export:
    """Plan an export of raw reports. Without bounds it takes every closed day of which reports
    are kept.

    Raises NotFoundError, or NotServedError for a day that is not closed or where none are kept.
    """
    entry = load_registry(connection).current(name, params_id)
    closed = entry.closed_through
    if first is not None and last is not None and first > last:
        raise NotServedError(
            f"the window {first} to {last} runs backwards", reason="window_backwards"
        )
    for day in filter(None, (first, last)):
        if day_of(day) > closed:
            raise NotServedError(
                f"day {day} is not closed; days are closed through {date_of(closed)}",
                reason="day_open",
            )
    days = 0 if first is None else day_of(first), closed if last is None else day_of(last)
    count = count_raw(connection, entry.series_id, *days)
    if not count:
        days_kept = raw_days(connection, entry.series_id, date.max.toordinal())
        waiting = next((day for day in days_kept if day > closed), None)
        raise _none_kept(entry, waiting if last is None else None)
    return Export(entry, days, count)


def _none_kept(entry: RegisteredSeries, waiting: int | None) -> NotServedError:
    """Why there is none. waiting: an open day of which reports are kept."""
    metric = entry.metric
    what = f"metric {metric.name!a}"
    if waiting is not None:
        through = date_of(entry.closed_through)
        return NotServedError(
            f"the raw reports of {what} are of days that are not closed, from {date_of(waiting)} "
            f"on; days are closed through {through}",
            reason="day_open",
        )
    kept = f"it keeps them for keep_raw_days = {metric.keep_raw_days} days"
    if metric.keep_raw_days > entry.patience:
        why = f"{kept}, unless an archive took them; give other days"
    else:
        why = (
            f"{kept}, and a day closes after {entry.patience} days, the largest accept_days of all "
            "versions; to export, the first must be the larger"
        )
    return NotServedError(
        f"no raw reports of {what} are kept for these days: {why}", reason="not_kept"
    )


def pages(opened: Open, export: Export) -> Iterator[list[Report]]:
    """The reports by day and cohort, else in random order; `opened` begins a short transaction."""
    metric, after = export.entry.metric, FIRST
    while True:
        with opened() as connection:
            rows = raw_page(connection, export.entry.series_id, *export.days, after, PAGE)
        if not rows:
            return
        yield [
            Report(metric.name, metric.params_id, cohort, date_of(day), bits)
            for (day, cohort, _), bits in rows
        ]
        after = rows[-1][0]


def as_lines(reports: list[Report]) -> bytes:
    """Format reports as lines of JSON, with the fields that they have on the wire."""
    lines = [json.dumps(report_fields(one), separators=(",", ":")) for one in reports]
    return ("\n".join(lines) + "\n").encode("ascii")
