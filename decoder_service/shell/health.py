"""Health, and counts for Prometheus: no person, metric, list or value is a label."""

from typing import Any

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from sqlalchemy import func, select
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from decoder_service.jobs.claims import live_workers
from decoder_service.people.permissions import Act, require
from decoder_service.shell.database import now
from decoder_service.shell.models import (
    HELD,
    EventRow,
    EventState,
    JobRow,
    JobState,
)
from decoder_service.shell.requests import GuardedRoute, current_person, service_of, without_key
from decoder_service.shell.service import DecoderService
from rappor_server.readiness import Readiness

api = APIRouter(tags=["health"], route_class=GuardedRoute)


def prometheus_text(service: DecoderService) -> bytes:
    """The text that Prometheus reads. Raises StorageError."""
    with service.database.reading() as db:
        at = now(db)
        created = select(func.min(JobRow.created)).where(JobRow.state == JobState.QUEUED)
        started = select(func.min(JobRow.started)).where(JobRow.state.in_(HELD))
        waiting, running = (max(0.0, at - (db.scalar(one) or at)) for one in (created, started))
        states = [
            dict(db.execute(select(table.state, func.count()).group_by(table.state)).all())
            for table in (JobRow, EventRow)
        ]
        workers = live_workers(db, 2 * service.settings.lease_seconds)
    registry = CollectorRegistry()
    for name, text, names, numbers in (
        ("jobs", "Jobs that are kept, by state", JobState, states[0]),
        ("events", "Events of alarms", EventState, states[1]),
    ):
        gauge = Gauge(f"rappor_decoder_{name}", text, ["state"], registry=registry)
        for state in names:
            gauge.labels(state.value).set(numbers.get(state.value, 0))
    for name, text, value in (
        ("oldest_queued_seconds", "Age of the job that waits longest", waiting),
        ("longest_running_seconds", "Age of the job that runs longest", running),
        ("workers", "Workers that live", len(workers)),
        ("slots", "Jobs that they do at once", sum(one.slots for one in workers)),
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
