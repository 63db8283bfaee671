"""`DecoderService`: all that the API, the pages and the command line work with, made once."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from decoder_service.aggregates.rows import delete_unused_aggregates
from decoder_service.aggregates.rules import Aggregates
from decoder_service.alarms.events import WindowEvents
from decoder_service.alarms.rules import Alarms, check_url
from decoder_service.jobs.claims import live_workers, take_over
from decoder_service.jobs.rows import delete_old_jobs
from decoder_service.jobs.rules import Jobs
from decoder_service.lists.rules import Lists
from decoder_service.metrics.rules import Metrics, RemoteCollector
from decoder_service.people.access import Access, AuditedOperations
from decoder_service.people.oidc import Provider
from decoder_service.people.permissions import Role
from decoder_service.people.provider_roles import ProviderRoles
from decoder_service.people.quotas import Usage
from decoder_service.people.rows import end_old_sessions
from decoder_service.releases.publishing import ReleasePublisher
from decoder_service.releases.rows import delete_rejected
from decoder_service.releases.rules import Releases
from decoder_service.results.rows import delete_old_results, delete_superseded, delete_unheld
from decoder_service.results.rules import Results
from decoder_service.schedules.rules import Schedules
from decoder_service.schedules.status import ScheduleStatuses
from decoder_service.schedules.tick import ScheduleRunner, TickResult
from decoder_service.shell.clock import Clock, utc_now
from decoder_service.shell.database import ServiceDatabase, make_engine
from decoder_service.shell.errors import UnavailableError
from decoder_service.shell.models import WorkerRow, list_contents
from decoder_service.shell.settings import ServiceSettings
from decoder_service.worker.uploads import Reader

_DAY = 86_400.0
BACK = "/sign-in/provider/back"  # the path that a provider sends browsers to


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderService(AuditedOperations):
    """The operations on one database."""

    jobs: Jobs
    results: Results
    releases: Releases
    lists: Lists
    aggregates: Aggregates
    metrics: Metrics
    schedules: Schedules
    statuses: ScheduleStatuses
    alarms: Alarms
    ticker: ScheduleRunner
    usage: Usage
    provider: Provider | None

    def check_ready(self) -> list[WorkerRow]:
        """The live workers. Raises StorageError if the database fails, UnavailableError if no
        worker lives."""
        with self.database.writing() as db:
            db.execute(text("SELECT 1"))
            found = live_workers(db, 2 * self.settings.lease_seconds)
        if not found:
            raise UnavailableError("no worker lives: jobs wait; start rappor decoder worker")
        return found

    def try_to_read(self) -> None:
        """Raises StorageError where the database cannot be read."""
        with self.database.reading() as db:
            db.execute(text("SELECT 1"))

    def try_to_write(self) -> None:
        """Write and delete a row as large as a result. Raises StorageError, as on a full disk."""
        self.database.try_to_write(list_contents, {"sha256": os.urandom(32).hex()}, "content")

    def tick(self) -> TickResult:
        """Queue and end the windows of schedules, and send the messages of alarms that are due.

        Raises StorageError.
        """
        ticked = self.ticker.tick()
        self.alarms.send_due()
        return ticked

    def keep_house(self) -> None:
        """End or requeue jobs of dead workers, delete what is out of time. Raises StorageError."""
        at = self.now()
        with self.database.writing() as db:
            take_over(db)
            end_old_sessions(db, at)
            delete_old_jobs(db, at - self.settings.keep_jobs_days * _DAY)
            delete_rejected(db, at - self.settings.keep_rejected_days * _DAY)
            if self.settings.keep_results_days is not None:
                delete_old_results(db, at - self.settings.keep_results_days * _DAY)

    def delete_unneeded_results(self) -> int:
        """Delete results that nobody holds, and old superseded ones; how many.

        Raises StorageError.
        """
        days = self.settings.keep_superseded_days
        with self.database.writing() as db:
            deleted = delete_unheld(db)
            if days is not None:
                before = self.now() - days * _DAY
                deleted += delete_superseded(db, before)
        return deleted

    def delete_unused_aggregates(self) -> int:
        """Delete old aggregates that no live job and no result needs. Raises StorageError."""
        before = self.now() - self.settings.keep_aggregates_days * _DAY
        with self.database.writing() as db:
            return delete_unused_aggregates(db, before)

    def close(self) -> None:
        """Close every database connection."""
        self.database.close()


def make_service(
    settings: ServiceSettings,
    *,
    clock: Clock = utc_now,
    random_bytes: Callable[[int], bytes] = os.urandom,
    publisher: ReleasePublisher | None = None,
) -> DecoderService:
    """Build the service's operations over the database of the settings; no connection is made
    yet.

    publisher: makes and signs releases; None: one that signs nothing.

    Raises SettingsError for a database that is none.
    """
    engine = make_engine(
        settings.database,
        pool_size=settings.database_connections,
        timeout=settings.database_seconds,
    )
    basis: dict[str, Any] = {
        "database": ServiceDatabase(engine),
        "clock": clock,
        "random_bytes": random_bytes,
        "settings": settings,
    }
    access = Access(**basis)
    audited = basis | {"access": access}
    reader = Reader(settings.job_memory_bytes)
    collector = _collector(settings)
    metrics = Metrics(basis["database"], collector.metrics if collector else None)
    jobs = Jobs(**audited, metrics=metrics)
    schedules = Schedules(**audited, jobs=jobs, metrics=metrics)
    statuses = ScheduleStatuses(**basis, schedules=schedules, metrics=metrics)
    return DecoderService(
        **audited,
        jobs=jobs,
        results=Results(**audited),
        releases=Releases(**audited, publisher=publisher or ReleasePublisher()),
        lists=Lists(**audited, reader=reader),
        aggregates=Aggregates(**audited, reader=reader),
        metrics=metrics,
        schedules=schedules,
        statuses=statuses,
        alarms=Alarms(**audited, schedules=schedules, urls=_alarm_urls(settings)),
        ticker=ScheduleRunner(
            **basis,
            schedules=schedules,
            jobs=jobs,
            window_events=WindowEvents(**basis, schedules=schedules),
            collector=collector,
            statuses=statuses,
        ),
        usage=Usage(**basis),
        provider=_provider(settings),
    )


def _collector(settings: ServiceSettings) -> RemoteCollector | None:
    """The collector of the settings."""
    if settings.collector is None:
        return None
    key = settings.collector_key
    return RemoteCollector(settings.collector, key.get_secret_value() if key else "")


def _provider(settings: ServiceSettings) -> Provider | None:
    """Where people sign in, in addition to keys."""
    if settings.oidc_issuer is None:
        return None
    groups = {
        Role.VIEWER: frozenset(settings.oidc_viewers),
        Role.ANALYST: frozenset(settings.oidc_analysts),
        Role.ADMIN: frozenset(settings.oidc_admins),
    }
    default = Role(settings.oidc_everyone) if settings.oidc_everyone else None
    secret = settings.oidc_client_secret
    return Provider(
        settings.oidc_issuer,
        settings.oidc_client_id,
        None if secret is None else secret.get_secret_value(),
        settings.oidc_scopes,
        (settings.public_url or "").rstrip("/") + BACK,
        ProviderRoles(settings.oidc_role_claim, groups, default),
    )


def _alarm_urls(settings: ServiceSettings) -> dict[str, str]:
    """Where alarms go. Raises SettingsError for a URL that Apprise cannot use."""
    urls = {name: url.get_secret_value() for name, url in settings.alarm_urls.items()}
    for name, url in urls.items():
        check_url(name, url)
    return urls
