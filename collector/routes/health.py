"""Whether the process lives, whether it can take reports, and its counts for Prometheus."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import JSONResponse, Response

from collector.domain.access import Scope
from collector.routes.dependencies import actor, parts_of


async def get_health() -> Response:
    """The process answers. Nothing else is looked at."""
    return JSONResponse({"status": "ok"})


async def get_ready(request: Request) -> Response:
    """Reports can be written; else 503 (raises StorageError). Found out once a second at most."""
    await parts_of(request).readiness.check()
    return JSONResponse({"status": "ready"})


def get_prometheus(request: Request) -> Response:
    """Counts as text for Prometheus; with `protect_metrics` for admins only."""
    parts = parts_of(request)
    if parts.settings.protect_metrics:
        actor(request, Scope.ADMIN)
    parts.telemetry.queued.set(parts.queue.queued_reports)
    parts.telemetry.unsent.set(parts.unsent.num_bytes)
    return Response(parts.telemetry.render(), media_type=parts.telemetry.content_type)
