"""The metrics, for everyone with a key."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from decoder_service.jobs.api import Me
from decoder_service.shell.guard import GuardedRoute
from decoder_service.shell.requests import service_of

router = APIRouter(prefix="/v1", tags=["metrics"], route_class=GuardedRoute)


@router.get("/metrics", operation_id="listMetrics")
def list_metrics(request: Request, person: Me) -> dict[str, Any]:
    """Every version of every metric: what the collector declares, and how many results."""
    views = service_of(request).metrics.all(person)
    return {"metrics": [asdict(view) for view in views.metrics], "problem": views.problem}
