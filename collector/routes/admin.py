"""The routes for analysts, admins and operators: aggregates, days, metrics and keys; health."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from collector.domain import access
from collector.domain.access import Scope
from collector.domain.metric_changes import Push
from collector.domain.raw_blocks import as_lines
from collector.routes.dependencies import (
    Admin,
    Analyst,
    Reader,
    actor,
    known_name,
    parts_of,
    read_body,
)
from collector.routes.shapes import (
    AggregateFile,
    Closed,
    Day,
    KeyRequest,
    Keys,
    Metrics,
    NewKey,
    Text,
)
from collector.store.registry import CollectorAuditRow
from rappor_core.metrics.file import parse_metrics
from rappor_core.strict_json import parse_strict_json
from rappor_server.errors import RequestError
from rappor_server.problems import request_problem

MAX_AUDIT = 1_000
COUNT_HEADER = "Rappor-Reports"
JSON_LINES = "application/x-ndjson"
_LINES: dict[int | str, dict[str, Any]] = {
    200: {"content": {JSON_LINES: {"schema": {"type": "string"}}}, "description": "Reports"}
}
router = APIRouter()
First = Annotated[Day | None, Query(alias="from")]
Last = Annotated[Day | None, Query(alias="to")]


def _body_of(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema}}}}


@router.post("/v1/days/{day}/close", operation_id="closeDay")
def close_day(
    request: Request, who: Admin, day: Day, metric: Text | None = None, dry_run: bool = False
) -> Closed:
    """Close a day and all earlier days permanently, for all metrics or for `metric`.

    With `dry_run=true`, nothing is closed, and the answer states what would be closed.
    """
    collector = parts_of(request).collector
    if dry_run:
        closed = collector.would_close(day, metric)
    else:
        closed = collector.close_day(day, who, metric)
    return Closed(closed_through=day, metrics=list(closed.metrics), days_with_reports=closed.folded)


@router.post(
    "/v1/metrics",
    operation_id="pushMetrics",
    openapi_extra=_body_of("application/toml", {"type": "string"}),
)
async def push_metrics(
    request: Request, who: Admin, weaken: bool = False, revive: bool = False
) -> Push:
    """Declare the metrics in a metrics.toml that is sent as the body."""
    try:
        text = (await _body(request)).decode("utf-8")
    except UnicodeDecodeError:
        raise RequestError("the body is not UTF-8 text") from None
    file = parse_metrics(text)
    return await run_in_threadpool(
        parts_of(request).collector.push_metrics,
        file.metrics.values(),
        who,
        weaken=weaken,
        revive=revive,
    )


@router.post("/v1/metrics/{name:path}/retire", operation_id="retireMetric")
def retire_metric(
    request: Request, who: Admin, name: str, params_id: Text | None = None
) -> dict[str, Any]:
    """Permanently stop accepting reports for a metric, or for its version `params_id`."""
    retired = parts_of(request).collector.retire_metric(known_name(name), who, params_id)
    return {"name": name, "retired": retired}


@router.post("/v1/metrics/{name:path}/pause", operation_id="pauseMetric")
def pause_metric(request: Request, who: Admin, name: str, resume: bool = False) -> dict[str, Any]:
    """Stop accepting reports for a metric for now; with `resume=true`, accept them again."""
    names = parts_of(request).collector.pause_metric(known_name(name), who, paused=not resume)
    return {"name": name, "paused": [] if resume else names}


@router.get("/v1/keys", operation_id="listKeys", response_model=Keys)
def get_keys(request: Request, _who: Admin) -> dict[str, Any]:
    """Return all keys, without their secrets."""
    return {"keys": [access.public_fields(row) for row in parts_of(request).collector.list_keys()]}


@router.post(
    "/v1/keys",
    operation_id="createKey",
    status_code=201,
    openapi_extra=_body_of("application/json", KeyRequest.model_json_schema()),
)
async def create_key(request: Request, who: Admin) -> NewKey:
    """Create a key: `{"scope": ..., "label": ...}`. Only this answer contains its text."""
    try:
        wanted_key = KeyRequest.model_validate(parse_strict_json(await _body(request)))
    except ValidationError as error:
        raise RequestError(request_problem(error)) from None
    key = await run_in_threadpool(
        parts_of(request).collector.create_key, wanted_key.scope, wanted_key.label, who
    )
    return NewKey(key_id=key.key_id, scope=key.scope, label=key.label, key=key.text)


@router.post("/v1/keys/{key_id}/revoke", operation_id="revokeKey")
def revoke_key(request: Request, who: Admin, key_id: str) -> dict[str, Any]:
    """Revoke a key permanently."""
    parts_of(request).collector.revoke_key(key_id, who)
    return {"key_id": key_id, "revoked": True}


@router.get("/v1/audit", operation_id="readAudit")
def get_audit(
    request: Request, _who: Admin, limit: Annotated[int, Query(ge=1, le=MAX_AUDIT)] = 100
) -> dict[str, list[CollectorAuditRow]]:
    """Return the latest actions by admins and analysts, newest first."""
    return {"entries": parts_of(request).collector.read_audit(limit)}


@router.get("/v1/metrics", operation_id="listMetrics", response_model=Metrics)
def get_metrics(request: Request, _who: Reader) -> Response:
    """Return every version of every metric: definition, state, total accepted, days served."""
    return JSONResponse({"version": 1, "metrics": parts_of(request).collector.list_metrics()})


@router.get(
    "/v1/metrics/{name:path}/aggregate", operation_id="readAggregate", response_model=AggregateFile
)
def get_aggregate(
    request: Request,
    who: Analyst,
    name: str,
    first: First = None,
    last: Last = None,
    params_id: Text | None = None,
) -> Response:
    """Return the counts over a window of closed days, in whole blocks, as an aggregate file."""
    aggregate = parts_of(request).collector.read_aggregate(
        who, known_name(name), params_id=params_id, first=first, last=last
    )
    return Response(aggregate.to_json(), media_type="application/json")


@router.get(
    "/v1/metrics/{name:path}/reports",
    operation_id="exportReports",
    response_class=StreamingResponse,
    responses=_LINES,
)
def export_reports(
    request: Request,
    who: Admin,
    name: str,
    first: First = None,
    last: Last = None,
    params_id: Text | None = None,
) -> StreamingResponse:
    """Return raw reports from closed days as JSON lines; `Rappor-Reports` is their number."""
    count, pages = parts_of(request).collector.export_reports(
        who, known_name(name), params_id=params_id, first=first, last=last
    )
    headers = {COUNT_HEADER: str(count)}
    return StreamingResponse(map(as_lines, pages), media_type=JSON_LINES, headers=headers)


async def _body(request: Request) -> bytes:
    parts = parts_of(request)
    return await read_body(request.scope, request.receive, parts.body_bounds)


@router.get("/healthz", operation_id="health")
async def get_health() -> dict[str, str]:
    """Return that the process responds, without checking anything else."""
    return {"status": "ok"}


@router.get("/readyz", operation_id="ready")
async def get_ready(request: Request) -> dict[str, str]:
    """Return that reports can be written, or 503. Checked at most once in five seconds."""
    await parts_of(request).readiness.check()
    return {"status": "ready"}


@router.get("/metrics", operation_id="prometheus", response_class=PlainTextResponse)
def get_prometheus(request: Request) -> Response:
    """Return counts as text for Prometheus; with `protect_metrics`, only admins may read them."""
    parts = parts_of(request)
    if parts.settings.protect_metrics:
        actor(request, Scope.ADMIN)
    parts.telemetry.queued.set(parts.queue.queued_reports)
    return Response(parts.telemetry.render(), media_type=parts.telemetry.content_type)
