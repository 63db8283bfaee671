"""`Collector`: all operations that routes and commands use, on one database."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date
from typing import Any, TypedDict, TypeVar, Unpack

from sqlalchemy import Connection, Row

from collector.domain import access, aggregates, closing, raw_blocks
from collector.domain import metric_changes as changes
from collector.domain.access import KeyRing, NewCollectorKey, Scope
from collector.domain.clock import Clock, GuardedClock, today
from collector.domain.raw_blocks import RawBlocks
from collector.domain.registry import Registry, load_registry
from collector.errors import CollectorError, NotServedError
from collector.store.blocks import count_unserved, load_possible
from collector.store.database import CollectorDatabase
from collector.store.registry import (
    CollectorAuditRow,
    load_keys,
    read_audit,
    read_last_day,
    save_last_day,
    write_audit,
)
from rappor_core.aggregate import Aggregate
from rappor_core.calendar import date_of, day_of
from rappor_core.metrics.metric import Metric
from rappor_core.wire.report import Report

COMMAND_LINE = "command-line"
Read = TypeVar("Read", Aggregate, raw_blocks.Export)


class ServedWindow(TypedDict, total=False):
    """A metric version (default: the current version), and the first and last day, inclusive."""

    params_id: str | None
    first: date | None
    last: date | None


class Collector:
    """The operations of analysts and admins; each is one transaction with an audit log entry.

    `actor` is the id of a key, or `command-line` for a user of the database itself.
    """

    def __init__(
        self,
        database: CollectorDatabase,
        *,
        clock: Clock | None = None,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """Prepare the operations; do nothing yet.

        If `clock` is None, it is the system's, protected against jumps. Other clocks are trusted.
        """
        self.database = database
        self.clock: Clock = GuardedClock() if clock is None else clock
        self._random_bytes = random_bytes
        self._registry: Registry | None = None
        self._cleaned = (-1, -1)  # `today` and `now` at the last deletion of expired data

    @property
    def today(self) -> int:
        """Return the current day, UTC, as a number: the last confirmed day (`GuardedClock`)."""
        if isinstance(self.clock, GuardedClock):
            self._check(self.clock)
        return today(self.clock)

    @property
    def is_clock_suspect(self) -> bool:
        """Return whether the clock is ahead of the confirmed time; days then do not close."""
        return isinstance(self.clock, GuardedClock) and self.clock.is_suspect

    def _check(self, clock: GuardedClock) -> None:
        with self.database.read() as connection:
            last_day, database_time = read_last_day(connection)
        clock.check(last_day, database_time)
        if last_day is None or today(clock) > last_day:
            with self.database.add() as connection:
                save_last_day(connection, today(clock), forward=True)

    def confirm_clock(self, actor: str) -> date:
        """Record that this machine's clock is right; return its day. Days are closed again."""
        clock = self.clock.unguarded if isinstance(self.clock, GuardedClock) else self.clock
        day = today(clock)
        with self.database.change() as connection:
            save_last_day(connection, day)
            self._note(connection, actor, "confirm-clock", day=date_of(day).isoformat())
        return date_of(day)

    def close_day(self, day: date, actor: str, metric: str | None = None) -> closing.Closed:
        """Close a day and all earlier days permanently.

        Args:
            day: The last day to close.
            actor: The actor, for the audit log.
            metric: The declared name of the only metric to close; all metrics if None.

        Returns:
            The metrics that were closed, and the number of days whose counters were folded.

        Raises:
            CollectorError: The day is in the future, or there is no such metric.
        """
        cached, today = self.registry(), self.today
        with self.database.change() as connection:
            registry = load_registry(connection, cached)
            closing.refuse_fed(connection)
            days = closing.metrics_to_close(registry, day_of(day), today, metric)
            metrics = closing.close_metrics(connection, days)
            self._note(connection, actor, "close", day=day.isoformat(), metrics=metrics)
        return closing.Closed(metrics, closing.fold_closed(self.database, cached))

    def would_close(self, day: date, metric: str | None = None) -> closing.Closed:
        """Return what `close_day` would do, without changing anything."""
        today = self.today
        with self.database.read() as connection:
            closing.refuse_fed(connection)
            return closing.would_close(connection, day_of(day), today, metric)

    def settle_restore(self, actor: str, *, keep_unserved: bool) -> int:
        """After a restore, keep or delete the days that are not served yet; count their reports.

        Returns the number of reports on these days. The clock is trusted, because the last day seen
        is from the backup.
        """
        today = self.confirm_clock(actor)
        with self.database.change() as connection:
            if keep_unserved:
                reports = count_unserved(connection)
            else:
                reports = closing.discard_unserved(connection, day_of(today))
            act = "keep" if keep_unserved else "discard"
            self._note(connection, actor, act, reports=reports)
        return reports

    def close_due(self, *, daily: bool = False) -> closing.Closed | None:
        """Close due days, and delete data that is no longer needed; return None if nothing was due.

        If `daily`, delete once per day even if nothing is due, as when an admin closes every day.
        """
        now = self.today  # read before the broker's watermark
        registry, metrics = self.registry(), tuple[str, ...]()
        with self.database.read() as connection:
            today = closing.closing_day(connection, now)
        is_due = bool(closing.due_metrics(registry, today))
        if is_due:
            with self.database.change() as connection:
                registry = load_registry(connection, registry)
                due = closing.due_metrics(registry, today)
                metrics = closing.close_metrics(connection, due)
        folded = closing.fold_closed(self.database, registry)
        if is_due or (daily and self._cleaned != (today, now)):
            closing.clean_up(self.database, registry, today, now)
            self._cleaned = (today, now)
        return closing.Closed(metrics, folded) if metrics or folded else None

    def waiting_days(self) -> int:
        """Return the largest number of closed days of a series that are not served yet."""
        registry = self.registry()
        with self.database.read() as connection:
            waiting = [block for block in load_possible(connection) if not block.sealed]
        spans = (
            block.last_day - block.first_day + 1
            for block in waiting
            if block.series_id in registry.by_id and not registry.by_id[block.series_id].retired
        )
        return max(spans, default=0)

    def read_aggregate(self, actor: str, name: str, **window: Unpack[ServedWindow]) -> Aggregate:
        """Return the aggregate for a window of closed days.

        Args:
            actor: The reader; the audit log records the read before the result is returned.
            name: The metric, or a slot and level of a location metric.
            window: The version, and the first and last day.

        Raises:
            NotServedError: The days are not closed, or have too few reports.
        """
        return self._read_window(aggregates.read_aggregate, actor, "aggregate", name, window)

    def export_reports(
        self, actor: str, name: str, **window: Unpack[ServedWindow]
    ) -> tuple[int, Iterator[list[Report]]]:
        """Return the number of raw reports on closed days, and the reports in pages.

        The audit log records the export before any report is returned.
        """
        plan = self._read_window(raw_blocks.plan_export, actor, "export", name, window)
        return plan.num_reports, raw_blocks.pages(self.database.read, plan)

    def _read_window(
        self, read: Callable[..., Read], actor: str, act: str, name: str, window: ServedWindow
    ) -> Read:
        """Return the result of `read` for a window; it, or its refusal, is audited first."""
        self.close_due()
        first, last = (day and str(day) for day in (window.get("first"), window.get("last")))
        noted = {"metric": name, "params_id": window.get("params_id"), "from": first, "to": last}
        try:
            with self.database.read() as connection:
                content = read(connection, name, **window)
        except CollectorError as error:
            self._note_alone(actor, act, **noted, refused=error.details.get("reason", "refused"))
            if isinstance(error, NotServedError) and self.is_clock_suspect:
                hint = "the clock is suspect, so it closes no day: see rappor clock"
                raise NotServedError(f"{error}; {hint}", **error.details) from None
            raise
        self._note_alone(actor, act, **noted, reports=content.num_reports)
        return content

    def raw_blocks(self, actor: str, name: str | None = None) -> RawBlocks:
        """Return the sealed blocks whose raw reports can be archived, after an audit entry."""
        self.close_due()
        self._note_alone(actor, "move-raw", metric=name)
        return RawBlocks(self.database, name)

    def list_metrics(self) -> list[dict[str, Any]]:
        """Return every version of every metric, with totals; see `aggregates.list_metrics`."""
        self.close_due()
        today = date_of(self.today)
        with self.database.read() as connection:
            return aggregates.list_metrics(connection, today)

    def push_metrics(
        self,
        metrics: Iterable[Metric],
        actor: str,
        *,
        weaken: bool = False,
        revive: bool = False,
    ) -> changes.Push:
        """Declare metrics, or new versions of them.

        Args:
            metrics: The metrics of a file.
            actor: The actor, for the audit log.
            weaken: Whether to allow versions that reveal more about a device.
            revive: Whether to accept reports of retired versions again.

        Returns:
            The names of the metrics that were added, changed or weakened, or are still retired.
        """
        today = self.today
        with self.database.change() as connection:
            push = changes.push_metrics(
                connection, list(metrics), today, weaken=weaken, revive=revive
            )
            if push.added or push.changed:
                self._note(
                    connection,
                    actor,
                    "push",
                    added=push.added,
                    changed=push.changed,
                    weakened=push.weakened,
                )
        return push

    def retire_metric(self, name: str, actor: str, params_id: str | None = None) -> list[str]:
        """Permanently stop accepting reports for a metric or for one of its versions."""
        with self.database.change() as connection:
            retired = changes.change_state(connection, "retire", name, params_id, retired=True)
            self._note(connection, actor, "retire", metric=name, params_ids=retired)
        return retired

    def pause_metric(self, name: str, actor: str, *, paused: bool) -> list[str]:
        """Stop accepting reports for a metric for now, or accept them again."""
        with self.database.change() as connection:
            params_ids = changes.change_state(connection, "pause", name, paused=paused)
            act = "pause" if paused else "resume"
            self._note(connection, actor, act, metric=name, params_ids=params_ids)
        return params_ids

    def create_key(self, scope: Scope, label: str, actor: str) -> NewCollectorKey:
        """Create a key. The audit log records its id, scope and label."""
        today = self.today
        with self.database.change() as connection:
            key = access.create_key(connection, scope, label, today, self._random_bytes)
            self._note(connection, actor, "create-key", key=key.key_id, scope=scope, label=label)
        return key

    def revoke_key(self, key_id: str, actor: str) -> None:
        """Revoke a key permanently."""
        today = self.today
        with self.database.change() as connection:
            access.revoke(connection, key_id, today)
            self._note(connection, actor, "revoke-key", key=key_id)

    def list_keys(self) -> Sequence[Row[Any]]:
        """Return all keys, without their secrets."""
        with self.database.read() as connection:
            return load_keys(connection)

    def read_audit(self, limit: int) -> list[CollectorAuditRow]:
        """Return the latest actions, newest first."""
        with self.database.read() as connection:
            return read_audit(connection, limit)

    def registry(self) -> Registry:
        """Return the current metrics, and read them again if they have changed."""
        with self.database.read() as connection:
            self._registry = registry = load_registry(connection, self._registry)
        return registry

    def key_ring(self) -> KeyRing:
        """Return the keys that are not revoked."""
        return {row.key_id: row for row in self.list_keys() if row.revoked is None}

    def _note_alone(self, actor: str, act: str, **detail: Any) -> None:
        with self.database.add() as connection:
            self._note(connection, actor, act, **detail)

    def _note(self, connection: Connection, actor: str, act: str, **detail: Any) -> None:
        at = self.clock().astimezone(UTC).isoformat(timespec="seconds")
        write_audit(
            connection, CollectorAuditRow(at, actor, act, json.dumps(detail, sort_keys=True))
        )
