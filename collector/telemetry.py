"""The counters for Prometheus. Labels never contain addresses, app keys, metrics or devices."""

import os
from contextlib import suppress
from functools import partial
from pathlib import Path

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from collector.domain.batch_writer import Receipt
from collector.domain.report_validation import REASONS

MULTIPROCESS_DIR = "PROMETHEUS_MULTIPROC_DIR"  # set for several workers, before they start
_COMMIT_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


class Telemetry:
    """The Prometheus counters of one app; workers share them through files (MULTIPROCESS_DIR)."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        registry = self._registry
        counter = partial(Counter, registry=registry)
        total = partial(Gauge, registry=registry, multiprocess_mode="livesum")
        largest = partial(Gauge, registry=registry, multiprocess_mode="livemax")
        self.accepted = counter("rappor_reports_accepted", "Reports counted")
        self.refused = counter("rappor_reports_refused", "Reports refused", ["reason"])
        self.implausible = counter(
            "rappor_reports_implausible", "Reports whose number of set bits is beyond 6 sigma"
        )
        self.duplicates = counter(
            "rappor_batches_duplicate", "Batches sent again, not counted again"
        )
        self.requests = counter("rappor_requests", "Requests for reports, by status", ["status"])
        self.ohttp_requests = counter(
            "rappor_ohttp_requests", "Requests through a relay that were opened, by key", ["key"]
        )
        self.ohttp_refused = counter(
            "rappor_ohttp_refused", "Requests through a relay not opened, by status", ["status"]
        )
        self.ohttp_key_age = largest(
            "rappor_ohttp_key_age_days",
            "Days since a key for requests through a relay was created",
            ["key"],
        )
        self.commit_seconds = Histogram(
            "rappor_commit_seconds",
            "Time to judge, count and commit one group of batches",
            buckets=_COMMIT_BUCKETS,
            registry=registry,
        )
        self.commit_failures = counter("rappor_commit_failures", "Groups that could not be written")
        self.queued = total("rappor_queued_reports", "Reports waiting for a commit")
        self.open_days = largest(
            "rappor_open_days", "Days that take reports, of the most patient metric"
        )
        self.largest_sender = largest(
            "rappor_largest_sender_share", "Share of one sender in the reports of the last minute"
        )
        self.clock_suspect = largest(
            "rappor_clock_suspect", "1 while the clock is ahead of what bears it out: no day closes"
        )
        self.days_growing = largest(
            "rappor_days_growing",
            "Open days of a series with far more reports than the days before",
        )
        self.raw_days_expiring = largest(
            "rappor_raw_days_expiring",
            "Closed days of a series whose raw reports are deleted within two days, and not moved",
        )
        self.waiting_days = largest(
            "rappor_waiting_days",
            "Closed days that too few reports keep from being served, of the longest wait",
        )
        self.metrics_current = largest(
            "rappor_metrics_current", "Versions of metrics that are not retired"
        )
        self.refused_late = largest(
            "rappor_reports_refused_late",
            "Reports that were acknowledged before a broker, and refused by its consumer",
        )
        self.messages_skipped = largest(
            "rappor_messages_skipped", "Messages of a broker that could not be counted"
        )
        self._counted = self.requests.labels("200")
        for reason in REASONS:
            self.refused.labels(reason.value)

    def count(self, receipt: Receipt) -> None:
        """Count the reports in an answered batch; a repeated batch counts only as a duplicate."""
        self._counted.inc()
        if receipt.duplicate:
            self.duplicates.inc()
            return
        self.accepted.inc(receipt.accepted)
        if receipt.accepted < len(receipt.results):
            for refusal in filter(None, receipt.results):
                self.refused.labels(refusal.reason.value).inc()
        if receipt.implausible:
            self.implausible.inc(receipt.implausible)

    def on_commit(self, seconds: float, failed: bool) -> None:
        """Record the commit of one group of batches."""
        self.commit_seconds.observe(seconds)
        if failed:
            self.commit_failures.inc()

    def render(self) -> bytes:
        """Return the counters in Prometheus's text format, summed over all workers."""
        registry = self._registry
        if os.environ.get(MULTIPROCESS_DIR):
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


def forget_process() -> None:
    """Remove this worker's gauges from the sum over workers; called when the worker ends."""
    if os.environ.get(MULTIPROCESS_DIR):
        mark_process_dead(os.getpid())  # type: ignore[no-untyped-call]


def forget_dead_workers() -> None:
    """Remove killed workers' gauges from the sum."""
    for file in Path(os.environ[MULTIPROCESS_DIR]).glob("gauge_live*_*.db"):
        pid = int(file.stem.rpartition("_")[2])
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            with suppress(FileNotFoundError):  # another starting worker was faster
                mark_process_dead(pid)  # type: ignore[no-untyped-call]
        except PermissionError:
            continue  # another user's process now has this number, so the file is deleted later
