"""The app's periodic work: closing days, deleting data, and checking for unusual growth."""

import asyncio
from time import monotonic

from starlette.concurrency import run_in_threadpool

from collector.domain.clock import today
from collector.domain.closing import Closed
from collector.domain.growth import find_growth
from collector.domain.raw_blocks import find_damaged, find_expiring
from collector.domain.registry import RegisteredSeries
from collector.routes.dependencies import AppComponents
from collector.store.broker import count_skipped, read_state
from rappor_core.calendar import date_of
from rappor_server.errors import StorageError
from rappor_server.logs import Log

_MAX_SHARE = 0.5  # the fraction of all reports above which a single sender is logged
_GROWTH_SECONDS = 600.0  # between checks of all days' report numbers


def do_chores(parts: AppComponents) -> Closed | None:
    """Close due days, delete expired data, and update gauges; None if no day was due."""
    closed = parts.collector.close_due(daily=True)
    registry, today = parts.collector.registry(), parts.collector.today
    open_days = [today - entry.closed_through for entry in registry if not entry.retired]
    parts.telemetry.open_days.set(max(open_days, default=0))
    parts.telemetry.metrics_current.set(len(open_days))
    parts.telemetry.waiting_days.set(parts.collector.waiting_days())
    parts.telemetry.clock_suspect.set(parts.collector.is_clock_suspect)
    with parts.collector.database.read() as connection:
        state = read_state(connection)
        if state is not None:  # a broker feeds the database
            parts.telemetry.refused_late.set(state.refused)
            parts.telemetry.messages_skipped.set(count_skipped(connection))
    return closed


class Notices:
    """A log of ongoing conditions, each of which is logged once until it clears."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._logged: set[tuple[str, ...]] = set()

    def log(self, event: str, *key: str, **fields: str | float) -> None:
        """Log an event once for each key (such as a metric and a day)."""
        if (event, *key) not in self._logged:
            self._logged.add((event, *key))
            self._log.notice(event, **fields)

    def log_of(self, entry: RegisteredSeries, event: str, key: str, **fields: str | float) -> None:
        """Log an event once for each series and key."""
        self.log(event, entry.metric.name, entry.params_id, key, metric=entry.metric.name, **fields)

    def log_while(self, is_so: bool, event: str, **fields: str | float) -> None:
        """Log an event if `is_so` is true; repeat it only after a call in which it was false."""
        if is_so:
            self.log(event, **fields)
        else:
            self._logged.discard((event,))


async def run_maintenance(parts: AppComponents, log: Log) -> None:
    """Periodically close due days, and log conditions that an operator should know about."""
    notices, next_look = Notices(log), 0.0
    _notice_clock(parts, notices)
    _notice_relay_keys(parts, notices)
    while True:
        await asyncio.sleep(parts.settings.housekeeping_seconds)
        try:
            closed = await run_in_threadpool(do_chores, parts)
            _notice_clock(parts, notices)
            _notice_sender(parts, notices)
            _notice_relay_keys(parts, notices)
            await run_in_threadpool(_notice_expiry, parts, notices)
            if monotonic() >= next_look:
                next_look = monotonic() + _GROWTH_SECONDS
                await run_in_threadpool(_notice_growth_and_damage, parts, notices)
        except StorageError as error:
            log.warning("housekeeping_failed", reason=str(error))
            continue
        except Exception as error:  # in spite of a defect or damage, days must be closed
            log.crash(error)
            continue
        if closed is not None:
            log.info("days_closed", metrics=len(closed.metrics), days_with_reports=closed.folded)


def _notice_clock(parts: AppComponents, notices: Notices) -> None:
    notices.log_while(
        parts.collector.is_clock_suspect,
        "clock_suspect",
        closing_by=date_of(today(parts.collector.clock)).isoformat(),
        hint="correct the system's clock; if it is right: rappor clock --confirm",
    )


def _notice_sender(parts: AppComponents, notices: Notices) -> None:
    """Log that most reports come from one sender, without naming it."""
    share = parts.shares.largest()
    parts.telemetry.largest_sender.set(share)
    notices.log_while(
        share > _MAX_SHARE,
        "one_sender_takes_most",
        share=round(share, 2),
        hint="bound it at the reverse proxy; if it is the proxy, set sender_header",
    )


def _notice_relay_keys(parts: AppComponents, notices: Notices) -> None:
    """Set the gauge for the age of relay keys; log if the newest is old or keys are unreadable."""
    if parts.relay_keys is None:
        return
    now, gauge = date_of(today(parts.collector.clock)), parts.telemetry.ohttp_key_age
    valid = [row for row in parts.relay_keys.rows if row.private]
    for row in valid:
        gauge.labels(str(row.key_id)).set((now - row.created).days)
    newest = max((row.created for row in valid), default=now)
    age = (now - newest).days
    if age > parts.settings.ohttp_max_age_days:
        hint = "rappor ohttp-keys create, and ship it"
        notices.log("relay_key_is_old", str(newest), days=age, hint=hint)
    if parts.relay_keys.trouble:
        reason = parts.relay_keys.trouble
        notices.log("relay_keys_not_read", reason, reason=reason)


def _notice_expiry(parts: AppComponents, notices: Notices) -> None:
    with parts.collector.database.read() as connection:
        expiring = find_expiring(connection, parts.collector.registry(), parts.collector.today)
    parts.telemetry.raw_days_expiring.set(len(expiring))
    for entry, number in expiring:
        day, last = (str(date_of(n)) for n in (number, number + entry.metric.keep_raw_days))
        notices.log_of(entry, "raw_reports_expire", day, day=day, last_day=last)


def _notice_growth_and_damage(parts: AppComponents, notices: Notices) -> None:
    """Log days with far more reports than usual, and metrics with damaged closed days."""
    registry = parts.collector.registry()
    with parts.collector.database.read() as connection:
        growing, damaged = find_growth(connection, registry), find_damaged(connection, registry)
    parts.telemetry.days_growing.set(len(growing))
    for entry, day, reports, usual in growing:
        notices.log_of(entry, "reports_grow", day, day=day, reports=reports, usual=usual)
    for entry, reason in damaged:
        notices.log_of(entry, "blocks_damaged", "", params_id=entry.params_id, reason=reason)
