"""The permanent closing of days, and the merging of days with too few reports.

Days close in order: closing a day also closes every earlier day of the same metric. This is one
short transaction, for which reports wait. From then on, no report is added to those days. Later,
their counters are folded into the series' unsealed block, a few series at a time, while reports for
other days arrive. The block is sealed, and served from then on, once it has `min_reports` in total
and `cohort_floor` in each non-empty cohort. Nothing unseals, splits or reorders blocks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter, sleep

from sqlalchemy import Connection

from collector.domain.registry import RegisteredSeries, Registry, load_registry
from collector.errors import DamagedBlocksError
from collector.store.batches import forget_batches
from collector.store.blocks import delete_unserved, first_day, first_days, fold_day
from collector.store.broker import ignore_before, read_state
from collector.store.counters import reports_by_day
from collector.store.database import CollectorDatabase
from collector.store.raw import delete_raw
from collector.store.registry import advance_frontiers, touch_state
from rappor_core.calendar import date_of
from rappor_server.errors import NotFoundError, RequestError

_NEVER = 1 << 31  # a day that is never reached
FOLD_SECONDS = 0.05  # the folding time per transaction, which first finishes its current day
_MAX_PAUSE = 0.05  # seconds between two transactions, in which reports are written


@dataclass(frozen=True, slots=True)
class Closed:
    """The result of closing days."""

    metrics: tuple[str, ...]  # the metrics with newly closed days
    folded: int  # the number of days whose counters were folded


def metrics_to_close(
    registry: Registry, day: int, today: int, metric: str | None = None
) -> dict[str, int]:
    """Return the metrics with open days up to `day`, each with the last day to close.

    Raises RequestError if the day is in the future, and NotFoundError if the metric is unknown.
    """
    if day > today:
        raise RequestError(
            f"day {date_of(day)} has not come yet (today is {date_of(today)}, UTC); "
            "only today and earlier days can be closed"
        )
    if metric is not None and all(entry.root != metric for entry in registry):
        raise NotFoundError(
            f"there is no metric {metric!a} to close days of; see rappor metrics list"
        )
    return {
        entry.root: day
        for entry in registry
        if metric in (None, entry.root) and day > entry.closed_through
    }


def due_metrics(registry: Registry, today: int) -> dict[str, int]:
    """Return the metrics with days that are due to be closed, each with the last such day."""
    return {
        entry.root: entry.due_through(today)
        for entry in registry
        if entry.due_through(today) > entry.closed_through
    }


def close_metrics(connection: Connection, days: Mapping[str, int]) -> tuple[str, ...]:
    """Close each metric's days up to its given day, and return the names of the metrics.

    The days must then be folded.
    """
    if days:
        advance_frontiers(connection, days)
        touch_state(connection)
    return tuple(sorted(days))


def fold_closed(database: CollectorDatabase, cached: Registry | None = None) -> int:
    """Fold the counters of every closed day into blocks; return the number of days.

    This includes days that a process closed but did not fold before it ended. Reports are
    written in pauses between short transactions.
    """
    with database.read() as connection:
        first = first_days(connection)
        if not first:
            return 0
        registry = load_registry(connection, cached)
    waiting = [
        entry
        for entry in registry.by_id.values()
        if first.get(entry.series_id, _NEVER) <= entry.closed_through
    ]
    folded = 0
    while waiting:
        started = perf_counter()
        with database.fold() as connection:
            folded += _fold_some(connection, waiting)
        if waiting:
            sleep(min(perf_counter() - started, _MAX_PAUSE))
    return folded


def closing_day(connection: Connection, today: int) -> int:
    """Return the day that closing treats as today; with a broker, at most its watermark.

    The watermark is the day before which all messages are counted. `today` must be read from the
    clock before this call.
    """
    state = read_state(connection)
    return today if state is None else min(today, state.counted_before)


def refuse_fed(connection: Connection) -> None:
    """Raise RequestError if a broker feeds the database, because only the clock may close days.

    Reports in the broker were already acknowledged to devices, and a closed day would reject them.
    """
    if read_state(connection) is not None:
        raise RequestError(
            "a broker feeds this database, so only the clock closes days, once all received "
            "reports are counted; stop the collectors and run rappor consume --leave first"
        )


def discard_unserved(connection: Connection, today: int) -> int:
    """Delete all days that are not served yet, after a restore; return their number of reports.

    A broker's messages that were received before today belong to those days, and are not counted
    again.

    Between the backup and the loss, those days may have been closed and served with reports that
    the backup lacks. If they were served again from the backup, the difference would reveal exactly
    those reports.
    """
    discarded = delete_unserved(connection)
    ignore_before(connection, today)
    touch_state(connection)
    return discarded


def clean_up(database: CollectorDatabase, registry: Registry, today: int, now: int) -> None:
    """Delete the batches of closed days, and expired raw reports.

    `today` is the day that closing treats as today. `now` is the clock's day, for retention in
    days.

    A batch expires according to the versions of its reports. A day is closed permanently by the
    version that accepts reports longest. Before that, a longer accept_days, or a clock that is
    behind, may reopen the day. So due days are closed first, and deleted data is never needed
    again; many short transactions suffice.
    """
    waits = (entry.patience - entry.metric.accept_days for entry in registry)
    before = today - max(waits, default=0)
    forget_batches(database.add, before)
    for entry in registry:
        with database.add() as connection:
            delete_raw(connection, entry.series_id, now - entry.metric.keep_raw_days)


def _fold_some(connection: Connection, waiting: list[RegisteredSeries]) -> int:
    """Fold closed days of waiting series for `FOLD_SECONDS`; return the number of days folded.

    Series that are finished (all closed days folded) or damaged are removed from `waiting`.
    """
    started, folded = perf_counter(), 0
    while waiting:
        entry = waiting[-1]
        metric = entry.metric
        day = first_day(connection, entry.series_id)
        if day is None or day > entry.closed_through:
            waiting.pop()
            continue
        try:
            with connection.begin_nested():
                fold_day(connection, entry.series_id, day, metric.min_reports, metric.cohort_floor)
        except DamagedBlocksError:  # `find_damaged` reports it; other series continue
            waiting.pop()
            continue
        folded += 1
        if perf_counter() - started >= FOLD_SECONDS:
            break
    return folded


def would_close(connection: Connection, day: int, today: int, metric: str | None = None) -> Closed:
    """Return what closing a day would do, without closing it.

    Raises the errors of `metrics_to_close`.
    """
    registry = load_registry(connection)
    metrics = metrics_to_close(registry, day, today, metric)
    folded = sum(
        stated <= day and registry.by_id[series_id].root in metrics
        for series_id, stated in reports_by_day(connection)
    )
    return Closed(tuple(sorted(metrics)), folded)
