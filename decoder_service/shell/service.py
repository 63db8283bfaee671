"""The operations that the API, the pages and the command line share (`DecoderService`)."""

import os
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete

from decoder_service.alarms.events import WindowEvents
from decoder_service.alarms.rules import Alarms, check_url
from decoder_service.jobs.rules import Jobs, live_workers, take_over
from decoder_service.lists.rules import Aggregates, Lists, delete_unused_aggregates
from decoder_service.metrics.rules import Metrics, RemoteCollector
from decoder_service.people.access import Access, AuditedOperations, end_old_sessions
from decoder_service.people.oidc import Provider
from decoder_service.releases.rules import Releases
from decoder_service.releases.sources import ReleasePublisher, delete_rejected
from decoder_service.results.rules import Results, delete_results, delete_unheld
from decoder_service.schedules.rules import Schedules
from decoder_service.schedules.tick import ScheduleRunner, TickResult
from decoder_service.shell.database import DAY_SECONDS, Clock, ServiceDatabase, utc_now
from decoder_service.shell.errors import UnavailableError
from decoder_service.shell.models import OVER, JobRow, ResultRow, WorkerRow, list_contents
from decoder_service.shell.settings import ServiceSettings, secret_text
from decoder_service.worker.process_limits import Reader
from rappor_server.database import make_engine


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderService(AuditedOperations):
    """All operations of the service on one database."""

    jobs: Jobs
    results: Results
    releases: Releases
    lists: Lists
    aggregates: Aggregates
    metrics: Metrics
    schedules: Schedules
    alarms: Alarms
    ticker: ScheduleRunner
    provider: Provider | None

    def check_ready(self) -> list[WorkerRow]:
        """Return the live workers.

        Raises StorageError if the database fails, and UnavailableError if no worker is alive."""
        with self.database.writing() as db:
            workers = live_workers(db, 2 * self.settings.lease_seconds)
        if not workers:
            raise UnavailableError("no worker is running: jobs wait; start rappor decoder worker")
        return workers

    def try_to_write(self) -> None:
        """Insert and delete a row with a MiB of data. Raises StorageError if the disk is full."""
        self.database.try_to_write(list_contents, {"sha256": os.urandom(32).hex()}, "content")

    def tick(self) -> TickResult:
        """Queue and end windows of schedules, and send due alarm messages. Raises StorageError."""
        ticked = self.ticker.tick()
        self.alarms.send_due()
        return ticked

    def run_maintenance(self) -> None:
        """End or requeue jobs of dead workers, and delete expired data. Raises StorageError."""
        at = self.now()
        with self.database.writing() as db:
            take_over(db)
            end_old_sessions(db, at)
            old = JobRow.ended < at - self.settings.keep_jobs_days * DAY_SECONDS
            db.execute(delete(JobRow).where(JobRow.state.in_(OVER), old))
            delete_rejected(db, at - self.settings.keep_rejected_days * DAY_SECONDS)
            if (days := self.settings.keep_results_days) is not None:
                delete_results(db, ResultRow.created < at - days * DAY_SECONDS)

    def delete_unneeded(self) -> tuple[int, int]:
        """Delete results that no one holds and old unused aggregates; return both numbers.

        An aggregate is unused if no live job and no result needs it. Raises StorageError."""
        before = self.now() - self.settings.keep_aggregates_days * DAY_SECONDS
        with self.database.writing() as db:
            results = delete_unheld(db)
        with self.database.writing() as db:
            return results, delete_unused_aggregates(db, before)

    def close(self) -> None:
        """Close every database connection."""
        self.database.close()


def make_service(
    settings: ServiceSettings,
    *,
    clock: Clock = utc_now,
    publisher: ReleasePublisher | None = None,
) -> DecoderService:
    """Build the service's operations for the settings' database, without connecting yet.

    `publisher` builds and signs releases; the default does not sign. Raises SettingsError if the
    database or an alarm target is unusable."""
    engine = make_engine(
        settings.database,
        pool_size=settings.database_connections,
        timeout=settings.database_seconds,
    )
    basis: dict[str, Any] = {
        "database": ServiceDatabase(engine),
        "clock": clock,
        "random_bytes": os.urandom,
        "settings": settings,
    }
    access = Access(**basis)
    audited = basis | {"access": access}
    reader = Reader(settings.job_memory_bytes)
    urls = {name: url.get_secret_value() for name, url in settings.alarm_urls.items()}
    for name, url in urls.items():
        check_url(name, url)
    collector = None
    if settings.collector is not None:
        collector = RemoteCollector(settings.collector, secret_text(settings.collector_key) or "")
    metrics = Metrics(basis["database"], collector.metrics if collector else None)
    schedules = Schedules(**audited, jobs=Jobs(**audited))
    return DecoderService(
        **audited,
        jobs=schedules.jobs,
        results=Results(**audited),
        releases=Releases(**audited, publisher=publisher or ReleasePublisher()),
        lists=Lists(**audited, reader=reader),
        aggregates=Aggregates(**audited, reader=reader),
        metrics=metrics,
        schedules=schedules,
        alarms=Alarms(**audited, schedules=schedules, urls=urls),
        ticker=ScheduleRunner(
            **basis,
            schedules=schedules,
            window_events=WindowEvents(**basis),
            metrics=metrics,
            collector=collector,
        ),
        provider=Provider(settings) if settings.oidc_issuer else None,
    )
