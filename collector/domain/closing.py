"""Closing days permanently, and merging what is too few.

Days close in order: closing a day closes every earlier day of the same metric with it. That is one
short transaction, which reports wait for. From then on nobody adds to those days, so their
counters are folded after it, a few series at a time, alongside the reports of other days: into
the series' unsealed block, which is sealed, and served from then on, when it holds `min_reports`,
and `cohort_floor` in each cohort that is not empty. Nothing unseals, splits or reorders blocks.
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

_NEVER = 1 << 31  # a day
FOLD_SECONDS = 0.05  # of folding in one transaction, and to the end of the day begun
_MAX_PAUSE = 0.05  # seconds between two of them, for who writes reports


@dataclass(frozen=True, slots=True)
class Closed:
    """The effect of a closing. metrics: those with newly closed days. folded: number of days
    whose counters were folded."""

    metrics: tuple[str, ...]
    folded: int


def metrics_to_close(
    registry: Registry, day: int, today: int, metric: str | None = None
) -> dict[str, int]:
    """Return the metrics of which closing `day` would close days that are open now, with the day.
    Raises RequestError for a day that has not come, NotFoundError for an unknown metric."""
    if day > today:
        raise RequestError(
            f"day {date_of(day)} has not come yet (today is {date_of(today)}, UTC); "
            "only today and earlier days can be closed"
        )
    if metric is not None and all(entry.root != metric for entry in registry):
        raise NotFoundError(f"there is no metric {metric!a} to close days of; see GET /v1/metrics")
    return {
        entry.root: day
        for entry in registry
        if metric in (None, entry.root) and day > entry.closed_through
    }


def due_metrics(registry: Registry, today: int) -> dict[str, int]:
    """Return the metrics with days whose time to take reports is over, with the last of these
    days."""
    return {
        entry.root: entry.due_through(today)
        for entry in registry
        if entry.due_through(today) > entry.closed_through
    }


def close_metrics(connection: Connection, days: Mapping[str, int]) -> tuple[str, ...]:
    """Close the days of each metric up to the one given; they are then to be folded. Returns the
    names of the metrics."""
    if days:
        advance_frontiers(connection, days)
        touch_state(connection)
    return tuple(sorted(days))


def fold_closed(database: CollectorDatabase, cached: Registry | None = None) -> int:
    """Fold the counters of every closed day that is not folded yet into blocks; return the
    number of days.

    Also what another process closed, and did not live to fold. In short transactions, each with
    a pause behind it in which reports are written.
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
    """Return the day that closing takes for today; with a broker, no later than the day before
    which all messages are counted.

    today: read from the clock before this is called.
    """
    state = read_state(connection)
    return today if state is None else min(today, state.counted_before)


def refuse_fed(connection: Connection) -> None:
    """Raises RequestError where a broker feeds the database: days close by the clock alone.

    Devices know that what it holds is accepted, and a closed day would refuse it.
    """
    if read_state(connection) is not None:
        raise RequestError(
            "a broker feeds this database, so days close by the clock alone, once all that was "
            "received is counted; stop the collectors and run rappor consume --leave first"
        )


def discard_unserved(connection: Connection, today: int) -> int:
    """Delete all days that are not served yet, after a restore; return their number of reports.

    Messages of a broker that were received before today are of those days, and not counted again.

    Between the backup and the loss those days may have been closed and served, with reports that
    the backup does not hold. Served again from it, they would differ by just those reports.
    """
    discarded = delete_unserved(connection)
    ignore_before(connection, today)
    touch_state(connection)
    return discarded


def clean_up(database: CollectorDatabase, registry: Registry, today: int, now: int) -> None:
    """Delete what is no longer needed: batches whose days are closed, raw reports out of time.

    today: what closing takes for today.  now: the clock's day, for what is kept for some days.

    A batch expires by the versions of its reports, a day is closed permanently by the most patient
    one; until then a longer accept_days, or a clock that is behind, may open the day again. So
    what is due is closed first, and what is deleted here stays unneeded whatever is declared
    meanwhile: many short transactions do.
    """
    waits = (entry.patience - entry.metric.accept_days for entry in registry)
    before = today - max(waits, default=0)
    forget_batches(database.add, before)
    for entry in registry:
        with database.add() as connection:
            delete_raw(connection, entry.series_id, now - entry.metric.keep_raw_days)


def _fold_some(connection: Connection, waiting: list[RegisteredSeries]) -> int:
    """Fold closed days, in order within a series, until the time is over.

    Returns how many. Days of a series that is damaged stay as they are.

    waiting: loses the series that have no more of them.
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
        except DamagedBlocksError:  # `find_damaged` reports it, and no other series waits for it
            waiting.pop()
            continue
        folded += 1
        if perf_counter() - started >= FOLD_SECONDS:
            break
    return folded


def would_close(connection: Connection, day: int, today: int, metric: str | None = None) -> Closed:
    """Return the effect of closing a day, without closing it. Raises what `metrics_to_close`
    does."""
    registry = load_registry(connection)
    metrics = metrics_to_close(registry, day, today, metric)
    folded = sum(
        stated <= day and registry.by_id[series_id].root in metrics
        for series_id, stated in reports_by_day(connection)
    )
    return Closed(tuple(sorted(metrics)), folded)
