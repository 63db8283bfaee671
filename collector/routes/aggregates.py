"""The routes of analysts: metrics with totals, aggregates, and (for admins) raw reports."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from collector.domain.export import as_lines
from collector.routes.dependencies import Admin, Analyst, Reader, known_name, parts_of
from collector.routes.shapes import AggregateFile, Day, Metrics, Text

COUNT_HEADER = "Rappor-Reports"
JSON_LINES = "application/x-ndjson"
_LINES: dict[int | str, dict[str, Any]] = {
    200: {"content": {JSON_LINES: {"schema": {"type": "string"}}}, "description": "Reports"}
}
router = APIRouter(prefix="/v1/metrics")
First = Annotated[Day | None, Query(alias="from")]
Last = Annotated[Day | None, Query(alias="to")]


@router.get("", operation_id="listMetrics", response_model=Metrics)
def get_metrics(request: Request, _who: Reader) -> Response:
    """Every version of every metric: definition, state, total accepted, days served."""
    return JSONResponse({"version": 1, "metrics": parts_of(request).collector.list_metrics()})


@router.get("/{name:path}/aggregate", operation_id="readAggregate", response_model=AggregateFile)
def get_aggregate(
    request: Request,
    who: Analyst,
    name: str,
    first: First = None,
    last: Last = None,
    params_id: Text | None = None,
) -> Response:
    """The counts of a window of closed days, whole blocks only, as an aggregate file."""
    aggregate = parts_of(request).collector.read_aggregate(
        who, known_name(name), params_id=params_id, first=first, last=last
    )
    return Response(aggregate.to_json(), media_type="application/json")


@router.get(
    "/{name:path}/reports",
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
    """Raw reports of closed days, a line of JSON each; `Rappor-Reports` is their number."""
    count, pages = parts_of(request).collector.export_reports(
        who, known_name(name), params_id=params_id, first=first, last=last
    )
    headers = {COUNT_HEADER: str(count)}
    return StreamingResponse(map(as_lines, pages), media_type=JSON_LINES, headers=headers)
