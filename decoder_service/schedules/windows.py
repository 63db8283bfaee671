"""The windows of a schedule: their days, their order and their storage."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, delete, select, update
from sqlalchemy.orm import Session

from decoder.errors import RemoteError
from decoder.tables.format import days
from decoder_service.jobs.specs import JobSpec
from decoder_service.metrics.rules import RemoteCollector, days_held
from decoder_service.shell.database import changed
from decoder_service.shell.models import ScheduleRow, WindowRow, WindowState
from rappor_core.aggregate import Aggregate

SERIES_DAYS = 90  # Maximum length of a series
DAY = timedelta(days=1)
_WAIT = ("day_open", "too_few_reports", "too_few_in_a_cohort", "no_closed_days")
Days = tuple[date, date]  # First and last day


class Every(StrEnum):
    """The length of a schedule's windows; weeks are Monday to Sunday."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"


_MAX_DAYS = {Every.DAY: 1, Every.WEEK: 7, Every.MONTH: 31}


class ScheduleState(StrEnum):
    """The states of a schedule."""

    READY = "ready"
    WAITING = "waiting"  # Until more days are closed
    BLOCKED = "blocked"  # A person must act
    PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    """The state of a schedule, with the reason and the remedy as text."""

    state: ScheduleState
    reason: str


def period_start(every: Every, day: date) -> date:
    """Return the first day of the period that contains a day."""
    if every is Every.WEEK:
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if every is Every.MONTH else day


def period_end(every: Every, day: date) -> date:
    """Return the last day of the period that contains a day."""
    in_next = period_start(every, day) + timedelta(days=_MAX_DAYS[every])
    return period_start(every, in_next) - DAY


def spec_of_schedule(row: ScheduleRow) -> JobSpec:
    """Return the specification of a schedule's jobs, for the whole metric at the collector."""
    return JobSpec.model_validate_json(row.spec)


def _first_day(row: ScheduleRow, served_from: str) -> date:
    """Return the first day of a schedule's first window; `served_from` is the first served day."""
    first = period_start(Every(row.every), date.fromisoformat(served_from))
    return max(first, date.fromisoformat(row.first_day)) if row.first_day else first


def next_window(
    row: ScheduleRow,
    versions: Sequence[Mapping[str, Any]],
    windows: Sequence[WindowRow],
    spec_digest: str,
) -> ScheduleStatus:
    """Return whether a schedule can decode its next window, or what it waits for.

    Args:
        row: The schedule.
        versions: The versions of its metric, as listed by the collector.
        windows: The stored windows.
        spec_digest: The digest of the schedule's current specification.
    """
    waiting = partial(ScheduleStatus, ScheduleState.WAITING)
    version = next((item for item in versions if item["state"] == "current"), None)
    if version is None:
        ended = f"the collector no longer accepts its reports ({versions[-1]['state']})"
        return waiting(f"{ended}: all served days are decoded")
    served = version["served"]
    if not served:
        return waiting(f"the collector serves none of its days yet{days_held(version, None)}")
    key = (spec_digest, version["params_id"])
    mine = [window.last_day for window in windows if (window.digest, window.params_id) == key]
    every, first = Every(row.every), _first_day(row, str(served["first_day"]))
    if mine:
        first = date.fromisoformat(max(mine)) + DAY
    last = period_end(every, first)
    if not mine and spec_of_schedule(row).operation == "series":
        last = period_end(every, last + DAY)  # A series begins with two windows
    if last.isoformat() <= str(served["last_day"]):
        return ScheduleStatus(ScheduleState.READY, "the next check queues a window")
    return waiting(
        f"the next window is {days(first, last)}, and the collector serves days up to "
        f"{served['last_day']}{days_held(version, last)}",
    )


def series_days(schedule: ScheduleRow, served: Mapping[str, str]) -> Days:
    """Return a series' first and last day: about `SERIES_DAYS` up to the last whole period."""
    every, last = Every(schedule.every), date.fromisoformat(served["last_day"])
    if period_end(every, last) != last:
        last = period_start(every, last) - DAY
    begin = max(served["first_day"], schedule.first_day or "")
    first = max(date.fromisoformat(begin), last - timedelta(days=SERIES_DAYS - 1))
    return period_start(every, first), last


def sealed_windows(
    collector: RemoteCollector,
    schedule: ScheduleRow,
    served: Mapping[str, str],
    params_id: str,
    stored_windows: Mapping[str, WindowRow],
) -> Iterator[tuple[Days, Aggregate | None]]:
    """Yield the sealed windows that are not stored yet, oldest first.

    An empty window has None in place of counts. Days that the collector merged stay together, so a
    window that would end within them is extended. Raises RemoteError."""
    every, through = Every(schedule.every), date.fromisoformat(served["last_day"])
    first = _first_day(schedule, served["first_day"])
    last = period_end(every, first)
    while last <= through:
        stored = stored_windows.get(first.isoformat())
        if stored is not None:
            last = date.fromisoformat(stored.last_day)
        else:
            try:
                counts = collector.aggregate(schedule.metric, params_id, first, last)
            except RemoteError as refusal:
                reason, merged = refusal.problem.get("reason"), refusal.problem.get("blocks")
                if reason == "window_cuts_block" and merged:  # First and last days, oldest first
                    (begin, end), until = merged[0], date.fromisoformat(merged[-1][1])
                    if date.fromisoformat(begin) < first:  # Earlier days belong to no window
                        first = date.fromisoformat(end) + DAY
                        last = max(last, period_end(every, first))
                        continue
                    if until > last:
                        last = period_end(every, until)
                        continue
                if reason in _WAIT:  # Too few reports to be served, or an open day
                    return
                if reason != "no_reports":
                    raise
                counts = None
            yield (first, last), counts
        first = last + DAY
        last = period_end(every, first)


def load_windows(db: Session, schedule_id: str) -> list[WindowRow]:
    """Load a schedule's windows, sorted by specification, metric version and first day."""
    query = select(WindowRow).where(WindowRow.schedule_id == schedule_id)
    order = WindowRow.digest, WindowRow.params_id, WindowRow.first_day
    return list(db.scalars(query.order_by(*order)))


def _is_window(row: WindowRow) -> ColumnElement[bool]:
    return (
        (WindowRow.schedule_id == row.schedule_id)
        & (WindowRow.digest == row.digest)
        & (WindowRow.params_id == row.params_id)
        & (WindowRow.first_day == row.first_day)
    )


def delete_window(db: Session, row: WindowRow) -> bool:
    """Delete a window if it has not changed since it was read; return False otherwise."""
    same = _is_window(row) & (WindowRow.last_day == row.last_day)
    return changed(db, delete(WindowRow).where(same)) == 1


def change_window(db: Session, row: WindowRow, **values: Any) -> bool:
    """Change a waiting window's columns; return False if another process changed it first."""
    waits = (WindowRow.state == WindowState.WAITING) & (WindowRow.tries == row.tries)
    return changed(db, update(WindowRow).where(_is_window(row), waits).values(values)) == 1
