"""Find the sealed windows of a schedule by asking the collector, period by period."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from decoder.errors import RemoteError
from decoder_service.metrics.rules import RemoteCollector
from decoder_service.schedules.choices import DAY, Every, period_end, period_start
from decoder_service.schedules.rows import WindowState
from decoder_service.shell.models import ScheduleRow, WindowRow
from rappor_core.aggregate import Aggregate

_WAIT = ("day_open", "too_few_reports", "too_few_in_a_cohort", "no_closed_days")

SERIES_DAYS = 90  # of a series, at most


@dataclass(frozen=True, slots=True)
class _Longer:
    """A window cuts days that the collector merged: ask from `first`, and at least to `last`."""

    first: date
    last: date


class _Waits:
    """A window is not sealed yet, or holds too little to be served."""


def sealed_windows(
    collector: RemoteCollector,
    schedule: ScheduleRow,
    row: dict[str, object],
    spec_digest: str,
    known: dict[str, WindowRow],
) -> Iterator[tuple[WindowRow, Aggregate | None]]:
    """Yield the sealed windows that are not stored yet, oldest first; None in place of counts:
    without reports.

    Days that the collector merged stay together: the window before their end is made longer.
    """
    served = row["served"]
    assert isinstance(served, dict)  # noqa: S101 (checked by the caller)
    every, params_id = Every(schedule.every), str(row["params_id"])
    through, first = _day(served["last_day"]), period_start(every, _day(served["first_day"]))
    if schedule.first_day is not None:
        first = max(first, _day(schedule.first_day))
    last = period_end(every, first)
    while last <= through:
        there = known.get(first.isoformat())
        if there is not None:
            last = _day(there.last_day)
        else:
            asked = _asked(collector, schedule.metric, params_id, first, last)
            if isinstance(asked, _Waits):
                return
            if isinstance(asked, _Longer):
                first, last = asked.first, max(last, period_end(every, asked.last))
                continue
            reports = None if asked is None else asked.num_reports
            yield _window(schedule, spec_digest, params_id, (first, last), reports), asked
        first = last + DAY
        last = period_end(every, first)


def series_window(
    schedule: ScheduleRow, served: Mapping[str, str], spec_digest: str, params_id: object
) -> WindowRow:
    """The days of a series: at most `SERIES_DAYS`, up to the end of the last sealed period."""
    every, last = Every(schedule.every), _day(served["last_day"])
    if period_end(every, last) != last:
        last = period_start(every, last) - DAY
    first = max(
        _day(served["first_day"]),
        _day(schedule.first_day or date.min),
        last - timedelta(days=SERIES_DAYS - 1),
    )
    return _window(schedule, spec_digest, str(params_id), (period_start(every, first), last), 0)


def _asked(
    collector: RemoteCollector, metric: str, params_id: str, first: date, last: date
) -> Aggregate | _Longer | _Waits | None:
    """The counts of a window; None without reports. Raises RemoteError."""
    try:
        return collector.aggregate(metric, params_id, first, last)
    except RemoteError as refusal:
        reason, blocks = refusal.problem.get("reason"), _blocks(refusal)
        if blocks and blocks[0][0] < first:  # the days before belong to no window
            after = blocks[0][1] + DAY
            return _Longer(after, after)
        if blocks and blocks[-1][1] > last:
            return _Longer(first, blocks[-1][1])
        if reason in _WAIT:
            return _Waits()
        if reason != "no_reports":
            raise
        return None


def _window(
    schedule: ScheduleRow,
    spec_digest: str,
    params_id: str,
    days: tuple[date, date],
    reports: int | None,
) -> WindowRow:
    """A window that is not stored yet. reports: of its counts; None: it has none."""
    first, last = (day.isoformat() for day in days)
    return WindowRow(
        schedule_id=schedule.id,
        digest=spec_digest,
        params_id=params_id,
        first_day=first,
        last_day=last,
        num_reports=reports or 0,
        state=WindowState.EMPTY if reports is None else WindowState.WAITING,
    )


def _day(text: object) -> date:
    return date.fromisoformat(str(text))


def _blocks(refusal: RemoteError) -> list[tuple[date, date]]:
    """First and last day of the merged days that a window would cut, oldest first."""
    if refusal.problem.get("reason") != "window_cuts_block":
        return []
    return [(_day(first), _day(last)) for first, last in refusal.problem.get("blocks", [])]
