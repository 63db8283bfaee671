"""The routes of analysts: metrics with totals, aggregates, and (for admins) raw reports."""

from __future__ import annotations

from datetime import date
from typing import Any

from fastapi import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from collector.domain.access import Scope
from collector.domain.export import as_lines
from collector.routes.dependencies import actor, known_name, parse_day, parts_of, query_of

COUNT_HEADER = "Rappor-Reports"
JSON_LINES = "application/x-ndjson"


def get_metrics(request: Request) -> Response:
    """Every version of every metric: definition, state, total accepted, days served."""
    actor(request, Scope.AGGREGATE, Scope.ADMIN)
    return JSONResponse({"version": 1, "metrics": parts_of(request).collector.list_metrics()})


def get_aggregate(request: Request, name: str) -> Response:
    """The counts of a window of closed days, as an aggregate file."""
    who = actor(request, Scope.AGGREGATE)
    aggregate = parts_of(request).collector.read_aggregate(
        who, known_name(name), **_window(request)
    )
    return Response(aggregate.to_json(), media_type="application/json")


def export_reports(request: Request, name: str) -> Response:
    """Raw reports of closed days, a line of JSON each; `Rappor-Reports` says how many."""
    who = actor(request, Scope.ADMIN)
    count, pages = parts_of(request).collector.export_reports(
        who, known_name(name), **_window(request)
    )
    headers = {COUNT_HEADER: str(count)}
    return StreamingResponse(map(as_lines, pages), media_type=JSON_LINES, headers=headers)


def _window(request: Request) -> dict[str, Any]:
    """What is asked for, as `Collector` takes it."""
    query = query_of(request, "from", "to", "params_id")
    first, last = (_day(query, name) for name in ("from", "to"))
    return {"params_id": query.get("params_id"), "first": first, "last": last}


def _day(query: dict[str, str], name: str) -> date | None:
    text = query.get(name)
    return None if text is None else parse_day(name, text)
