"""Health, and counts for Prometheus. No person, metric, list or value is a label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from decoder_service.alarms.rows import EventState, count_events
from decoder_service.jobs.claims import live_workers
from decoder_service.jobs.rows import JobState, count_states, job_ages
from decoder_service.people.permissions import Act, require
from decoder_service.shell.database import now
from decoder_service.shell.guard import GuardedRoute, without_key
from decoder_service.shell.models import WorkerRow
from decoder_service.shell.requests import current_person, service_of
from decoder_service.shell.service import DecoderService
from rappor_server.readiness import Readiness


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
        waiting, running = job_ages(db, at)
        workers = live_workers(db, 2 * service.settings.lease_seconds)
        jobs, events = count_states(db), count_events(db)
    return ServiceCounts(jobs, events, waiting, running, workers, at)


def prometheus_text(service: DecoderService) -> bytes:
    """The text that Prometheus reads. Raises StorageError."""
    found = counts_of(service)
    registry = CollectorRegistry()
    jobs = Gauge(
        "rappor_decoder_jobs", "Jobs that are kept, by state", ["state"], registry=registry
    )
    for state in JobState:
        jobs.labels(state.value).set(found.jobs.get(state.value, 0))
    events_gauge = Gauge("rappor_decoder_events", "Events of alarms", ["state"], registry=registry)
    for one in EventState:
        events_gauge.labels(one.value).set(found.events.get(one.value, 0))
    for name, text, value in (
        ("oldest_queued_seconds", "Age of the job that waits longest", found.oldest_queued),
        ("longest_running_seconds", "Age of the job that runs longest", found.longest_running),
        ("workers", "Workers that live", len(found.workers)),
        ("slots", "Jobs that they do at once", sum(one.slots for one in found.workers)),
    ):
        Gauge(f"rappor_decoder_{name}", text, registry=registry).set(value)
    return generate_latest(registry)


router = APIRouter(tags=["health"], route_class=GuardedRoute)


@router.get("/healthz", operation_id="getHealth")
@without_key
async def get_health() -> dict[str, Any]:
    """The process answers. Nothing else is looked at."""
    return {"status": "ok"}


@router.get("/readyz", operation_id="getReady")
@without_key
async def get_ready(request: Request) -> dict[str, Any]:
    """The database can be written and a worker lives; else 503, which says what is missing."""
    readiness: Readiness = request.app.state.readiness
    await readiness.check()
    workers = await run_in_threadpool(service_of(request).check_ready)
    return {"status": "ready", "workers": len(workers)}


@router.get("/telemetry", operation_id="getPrometheus")
@without_key
def get_prometheus(request: Request) -> Response:
    """Counts as text for Prometheus; with `protect_metrics` for admins only."""
    service = service_of(request)
    if service.settings.protect_metrics:
        require(current_person(request), Act.ADMINISTER)
    return Response(prometheus_text(service), media_type=CONTENT_TYPE_LATEST)
