"""Build the front of a collector with a broker, from its settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from collector.broker.broker_queue import BrokerQueue, KnownRegistry
from collector.broker.client import make_producer
from collector.domain.operations import Collector
from collector.domain.report_validation import ReportJudge
from collector.settings import Settings
from collector.store.broker import begin
from rappor_server.logs import Log


def make_front(
    settings: Settings,
    collector: Collector,
    judge: ReportJudge,
    on_commit: Callable[[float, bool], None],
    log: Log,
) -> BrokerQueue:
    """Build the front that hands batches to a broker; no connection is made yet.

    From its start on, days are closed only when all that the broker holds of them is counted.
    """

    def mark() -> None:
        today = collector.today
        with collector.database.change() as connection:
            begin(connection, today)

    return BrokerQueue(
        partial(make_producer, settings, log),
        settings.broker_topic,
        judge,
        KnownRegistry(collector.registry, on_crash=log.crash),
        collector.clock,
        settings.clock_skew,
        settings.max_queued_bytes,
        settings.max_batch_reports,
        before_start=mark,
        on_commit=on_commit,
        on_crash=log.crash,
    )
