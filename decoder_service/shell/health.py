"""Health routes: whether the process lives, and whether jobs can be taken and done."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from decoder_service.people.permissions import Act, require
from decoder_service.shell import telemetry
from decoder_service.shell.guard import GuardedRoute, without_key
from decoder_service.shell.requests import current_person, service_of
from rappor_server.readiness import Readiness

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
    return Response(telemetry.render(service), media_type=telemetry.CONTENT_TYPE)
