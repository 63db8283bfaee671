"""Periodic work of an app: closing days, deleting, checking for growth."""

from __future__ import annotations

import asyncio
from time import monotonic

from starlette.concurrency import run_in_threadpool

from collector.domain.clock import today
from collector.domain.closing import Closed
from collector.domain.growth import find_growth
from collector.domain.raw_blocks import find_damaged, find_expiring
from collector.errors import StorageError
from collector.routes.dependencies import AppComponents
from collector.store.broker import count_skipped, read_state
from rappor_core.calendar import date_of
from rappor_server.logs import Log

_MOST = 0.5  # of all reports: a share of one sender that is logged
_GROWTH_SECONDS = 600.0  # between looks at the numbers of all days


def do_chores(parts: AppComponents) -> Closed | None:
    """Close and delete what is out of time, and show how many days are open and waiting."""
    closed = parts.collector.close_due(daily=True)
    registry, today = parts.collector.registry(), parts.collector.today
    open_days = [today - entry.closed_through for entry in registry if not entry.retired]
    parts.telemetry.open_days.set(max(open_days, default=0))
    parts.telemetry.metrics_current.set(len(open_days))
    parts.telemetry.waiting_days.set(parts.collector.waiting_days())
    parts.telemetry.clock_suspect.set(parts.collector.is_clock_suspect)
    _show_broker(parts)
    _show_relay_keys(parts)
    return closed


def _show_broker(parts: AppComponents) -> None:
    """What the consumers of a broker passed over, and what they refused after all."""
    with parts.collector.database.read() as connection:
        state = read_state(connection)
        if state is not None:
            parts.telemetry.refused_late.set(state.refused)
            parts.telemetry.messages_skipped.set(count_skipped(connection))


def _show_relay_keys(parts: AppComponents) -> None:
    """How old the keys of devices behind a relay are, in days."""
    today = date_of(parts.collector.today)
    for row in parts.relay_keys.rows if parts.relay_keys else ():
        if row.private is not None:
            parts.telemetry.ohttp_key_age.labels(str(row.key_id)).set((today - row.created).days)


async def keep_house(parts: AppComponents, log: Log) -> None:
    """Close the days whose time is over, and look for days that grow strangely, now and then."""
    told: set[tuple[str, ...]] = set()
    _tell_of_clock(parts, log, told)
    next_look = 0.0
    while True:
        await asyncio.sleep(parts.settings.housekeeping_seconds)
        try:
            closed = await run_in_threadpool(do_chores, parts)
            _tell_of_clock(parts, log, told)
            _tell_of_sender(parts, log, told)
            await run_in_threadpool(_tell_of_expiry, parts, log, told)
            _tell_of_relay_keys(parts, log, told)
            if monotonic() >= next_look:
                next_look = monotonic() + _GROWTH_SECONDS
                await run_in_threadpool(_tell_of_growth, parts, log, told)
                await run_in_threadpool(_tell_of_damage, parts, log, told)
        except StorageError as error:
            log.warning("housekeeping_failed", reason=str(error))
            continue
        except Exception as error:  # a defect, or damage: days must be closed all the same
            log.crash(error)
            continue
        if closed is not None:
            log.info("days_closed", metrics=len(closed.metrics), days_with_reports=closed.folded)


def _tell_of_clock(parts: AppComponents, log: Log, told: set[tuple[str, ...]]) -> None:
    """Log once that the clock is ahead of what bears it out, and that no day closes by it."""
    key = ("clock",)
    if not parts.collector.is_clock_suspect:
        told.discard(key)
    elif key not in told:
        told.add(key)
        log.notice(
            "clock_suspect",
            closing_by=date_of(today(parts.collector.clock)).isoformat(),
            way_out="correct the system's clock; if it is right: rappor clock --confirm",
        )


def _tell_of_sender(parts: AppComponents, log: Log, told: set[tuple[str, ...]]) -> None:
    """Log once that most reports come from one sender, which is not named."""
    share, key = parts.shares.largest(), ("sender",)
    parts.telemetry.largest_sender.set(share)
    if share <= _MOST:
        told.discard(key)
    elif key not in told:
        told.add(key)
        log.notice(
            "one_sender_takes_most",
            share=round(share, 2),
            way_out="bound it at the reverse proxy; if it is the proxy, set sender_header",
        )


def _tell_of_growth(parts: AppComponents, log: Log, told: set[tuple[str, ...]]) -> None:
    """Log each day with far more reports than usual once, and count those that there are."""
    with parts.collector.database.read() as connection:
        found = find_growth(connection, parts.collector.registry())
    parts.telemetry.days_growing.set(len(found))
    for one in found:
        key = (one.metric, one.params_id, one.day)
        if key not in told:
            told.add(key)
            log.notice(
                "reports_grow", metric=one.metric, day=one.day, reports=one.reports, usual=one.usual
            )


def _tell_of_damage(parts: AppComponents, log: Log, told: set[tuple[str, ...]]) -> None:
    """Log each metric whose closed days are damaged once: they are neither served nor added to."""
    registry = parts.collector.registry()
    with parts.collector.database.read() as connection:
        found = find_damaged(connection, registry)
    for metric, params_id, reason in found:
        key = ("damage", metric, params_id)
        if key not in told:
            told.add(key)
            log.notice("blocks_damaged", metric=metric, params_id=params_id, reason=reason)


def _tell_of_relay_keys(parts: AppComponents, log: Log, told: set[tuple[str, ...]]) -> None:
    """Log once that the newest key of devices behind a relay is old, or that the file of keys
    cannot be read."""
    if parts.relay_keys is None:
        return
    today = date_of(parts.collector.today)
    held = [row.created for row in parts.relay_keys.rows if row.private is not None]
    newest = max(held, default=today)
    age = (today - newest).days
    if age > parts.settings.ohttp_max_age_days and ("relay_key", str(newest)) not in told:
        told.add(("relay_key", str(newest)))
        log.notice("relay_key_is_old", days=age, way_out="rappor ohttp-keys create, and ship it")
    if (trouble := parts.relay_keys.trouble) and ("relay_keys", trouble) not in told:
        told.add(("relay_keys", trouble))
        log.notice("relay_keys_not_read", reason=trouble)


def _tell_of_expiry(parts: AppComponents, log: Log, told: set[tuple[str, ...]]) -> None:
    """Log each day whose raw reports are deleted soon, and not moved, once; count them."""
    now = parts.collector.today
    with parts.collector.database.read() as connection:
        found = find_expiring(connection, parts.collector.registry(), now)
    parts.telemetry.raw_days_expiring.set(len(found))
    for one in found:
        key = ("raw", one.metric, one.params_id, one.day)
        if key not in told:
            told.add(key)
            log.notice("raw_reports_expire", metric=one.metric, day=one.day, last_day=one.last)
