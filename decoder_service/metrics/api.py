"""The metrics, for everyone with a key."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter

from decoder_service.shell.guard import GuardedRoute
from decoder_service.shell.requests import Me, Service

router = APIRouter(prefix="/v1", tags=["metrics"], route_class=GuardedRoute)


@router.get("/metrics", operation_id="listMetrics")
def list_metrics(service: Service, person: Me) -> dict[str, Any]:
    """Every version of every metric: what the collector declares, and how many results."""
    views = service.metrics.all(person)
    return {"metrics": [asdict(view) for view in views.metrics], "problem": views.problem}
