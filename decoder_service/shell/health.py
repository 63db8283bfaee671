"""Health, counts for Prometheus (no person, metric, list or value is a label), and the page of
the service's state, for admins: what does not go on, and what to do about it."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from sqlalchemy import func, select
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from decoder_service.jobs.claims import live_workers
from decoder_service.metrics.rules import NO_COLLECTOR, MetricViews
from decoder_service.people.permissions import Act, require
from decoder_service.schedules.status import ScheduleState, ScheduleStatus
from decoder_service.shell.database import now
from decoder_service.shell.models import (
    HELD,
    EventRow,
    EventState,
    JobRow,
    JobState,
    ScheduleRow,
    WorkerRow,
)
from decoder_service.shell.operations import decoder_version
from decoder_service.shell.requests import GuardedRoute, current_person, service_of, without_key
from decoder_service.shell.service import DecoderService
from decoder_service.shell.web import Visit, page_router
from rappor_server.readiness import Readiness

LONG_WAIT = 3600.0  # seconds of a queued job that are told
LOW_SPACE = 0.1  # part of a disk
api = APIRouter(tags=["health"], route_class=GuardedRoute)
pages = page_router()


@dataclass(frozen=True)
class ServiceCounts:
    """Numbers of jobs and of events of alarms by state, ages in seconds of the job that waits and
    of the one that runs longest, and the workers that live. at: the time of the database."""

    jobs: dict[str, int]
    events: dict[str, int]
    oldest_queued: float
    longest_running: float
    workers: list[WorkerRow]
    at: float


def counts_of(service: DecoderService) -> ServiceCounts:
    """Count what the database holds. Raises StorageError."""
    with service.database.reading() as db:
        at = now(db)
        created = select(func.min(JobRow.created)).where(JobRow.state == JobState.QUEUED)
        started = select(func.min(JobRow.started)).where(JobRow.state.in_(HELD))
        waiting, running = (max(0.0, at - (db.scalar(one) or at)) for one in (created, started))
        jobs, events = (
            {str(state): int(number) for state, number in db.execute(
                select(table.state, func.count()).group_by(table.state))}
            for table in (JobRow, EventRow)
        )  # fmt: skip
        workers = live_workers(db, 2 * service.settings.lease_seconds)
    return ServiceCounts(jobs, events, waiting, running, workers, at)


def prometheus_text(service: DecoderService) -> bytes:
    """The text that Prometheus reads. Raises StorageError."""
    counts = counts_of(service)
    registry = CollectorRegistry()
    for name, text, states, numbers in (
        ("jobs", "Jobs that are kept, by state", JobState, counts.jobs),
        ("events", "Events of alarms", EventState, counts.events),
    ):
        gauge = Gauge(f"rappor_decoder_{name}", text, ["state"], registry=registry)
        for state in states:
            gauge.labels(state.value).set(numbers.get(state.value, 0))
    for name, text, value in (
        ("oldest_queued_seconds", "Age of the job that waits longest", counts.oldest_queued),
        ("longest_running_seconds", "Age of the job that runs longest", counts.longest_running),
        ("workers", "Workers that live", len(counts.workers)),
        ("slots", "Jobs that they do at once", sum(one.slots for one in counts.workers)),
    ):
        Gauge(f"rappor_decoder_{name}", text, registry=registry).set(value)
    return generate_latest(registry)


@api.get("/healthz", operation_id="getHealth")
@without_key
async def get_health() -> dict[str, Any]:
    """The process answers. Nothing else is looked at."""
    return {"status": "ok"}


@api.get("/readyz", operation_id="getReady")
@without_key
async def get_ready(request: Request) -> dict[str, Any]:
    """The database can be written and a worker lives; else 503, which says what is missing."""
    readiness: Readiness = request.app.state.readiness
    await readiness.check()
    workers = await run_in_threadpool(service_of(request).check_ready)
    return {"status": "ready", "workers": len(workers)}


@api.get("/telemetry", operation_id="getPrometheus")
@without_key
def get_prometheus(request: Request) -> Response:
    """Counts as text for Prometheus; with `protect_metrics` for admins only."""
    service = service_of(request)
    if service.settings.protect_metrics:
        require(current_person(request), Act.ADMINISTER)
    return Response(prometheus_text(service), media_type=CONTENT_TYPE_LATEST)


@pages.get("/state")
def state(visit: Visit) -> Response:
    """The page of the state of workers, jobs, schedules, collector and database."""
    require(visit.person, Act.ADMINISTER)
    service = visit.service
    counts, metrics = counts_of(service), service.metrics.all(visit.person)
    rows = service.schedules.all(visit.person, limit=None)
    schedules = list(zip(rows, service.statuses.of_rows(rows), strict=True))
    url = service.database.engine.url
    disk = None  # of another database, its own server tells
    if url.get_backend_name() == "sqlite" and url.database:
        disk = shutil.disk_usage(Path(url.database).parent)
    paths = [Path(f"{url.database}{end}") for end in ("", "-wal")] if disk else []
    return visit.render(
        "state.html.j2",
        findings=list(_findings(service, counts, metrics, schedules, disk)),
        counts=counts,
        schedule_states=Counter(one.state.value for _, one in schedules),
        collector=service.settings.collector,
        metrics=len({view.name.partition("/")[0] for view in metrics.metrics if view.listed}),
        disk=disk,
        size=sum(path.stat().st_size for path in paths if path.exists()),
        dialect=url.get_backend_name(),
        version=decoder_version(),
    )


def _findings(
    service: DecoderService,
    counts: ServiceCounts,
    metrics: MetricViews,
    schedules: list[tuple[ScheduleRow, ScheduleStatus]],
    disk: Any,
) -> Iterator[tuple[str, str]]:
    """What does not go on, the worst first, and the page that says more, or ""."""
    if disk is not None and disk.free < LOW_SPACE * disk.total:
        yield "less than a tenth of the database's disk is free: make room", ""
    if not counts.workers:
        yield "no worker lives, so that jobs wait: start rappor decoder worker", ""
    if service.settings.collector is None:
        yield NO_COLLECTOR, ""
    elif metrics.problem:
        yield metrics.problem, ""
    if counts.oldest_queued > LONG_WAIT:
        waited = timedelta(seconds=round(counts.oldest_queued))
        yield f"a job has waited for {waited}: add workers or slots", "/jobs?state=queued"
    for row, status in schedules:
        if status.state is ScheduleState.BLOCKED:
            yield f"schedule {row.name}: {status.reason}", f"/schedules/{row.id}"
    if number := counts.events.get("failed"):
        yield f"{number} messages of alarms were given up", "/schedules"
