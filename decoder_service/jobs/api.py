"""Jobs: start, look at, cancel."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from decoder_service.jobs.rows import JobState
from decoder_service.jobs.specs import JobSpec
from decoder_service.shell.clock import text_of
from decoder_service.shell.guard import GuardedRoute
from decoder_service.shell.models import JobRow
from decoder_service.shell.requests import Me, Service

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=GuardedRoute)
Limit = Annotated[int, Query(ge=1, le=1000)]
Offset = Annotated[int, Query(ge=0, le=10**9)]


class NewJob(JobSpec):
    """A job, with its place among one's own: higher goes first."""

    priority: Annotated[int, Field(ge=-10, le=10, exclude=True)] = 0


@router.post("", operation_id="submitJob", status_code=202)
def submit(service: Service, person: Me, body: NewJob) -> dict[str, Any]:
    """Queue a job. While an equal one of yours waits or runs, that one is answered."""
    return shown_job(service.jobs.submit(person, body, body.priority))


@router.get("", operation_id="listJobs")
def list_jobs(
    service: Service,
    person: Me,
    state: JobState | None = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> dict[str, Any]:
    """Your jobs, newest first; all of them for an admin."""
    rows = service.jobs.all(person, state=state, limit=limit, offset=offset)
    return {"jobs": [shown_job(row) for row in rows]}


@router.get("/{job_id}", operation_id="getJob")
def get_job(service: Service, person: Me, job_id: str) -> dict[str, Any]:
    """A job: its state, progress, and how it ended."""
    return shown_job(service.jobs.get(person, job_id))


@router.post("/{job_id}/cancel", operation_id="cancelJob")
def cancel(service: Service, person: Me, job_id: str) -> dict[str, Any]:
    """Ask for the end of a job; one that is over stays as it is."""
    return shown_job(service.jobs.cancel(person, job_id))


def shown_job(row: JobRow) -> dict[str, Any]:
    """The properties of a job that its owner sees; the worker that holds it is not among them."""
    times = {name: getattr(row, name) for name in ("created", "started", "ended")}
    return {
        "id": row.id,
        "operation": row.operation,
        "metric": row.metric,
        "spec": json.loads(row.spec),
        "state": row.state,
        "stage": row.stage,
        "done": row.done,
        "total": row.total,
        "attempt": row.attempt,
        "max_attempts": row.max_attempts,
        "owner": row.person.name,
        "priority": row.priority,
        "reason": row.reason,
        "result_id": row.result_id,
        "checks": row.checks,
        **{name: None if at is None else text_of(at) for name, at in times.items()},
    }
