"""The routes of admins and operators: days, metrics and keys; whether the process is well."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from collector.domain import access
from collector.domain.access import Scope
from collector.errors import RequestError
from collector.request_body import read_body
from collector.routes.dependencies import actor, known_name, parse_day, parts_of, query_of
from rappor_core.metrics.file import parse_metrics
from rappor_core.strict_json import parse_strict_json

MAX_AUDIT = 1_000


def close_day(request: Request, day: str) -> Response:
    """Close a day and all before it, of all metrics or of `metric`, for good.

    With `dry_run=true` nothing is closed: the answer says what would be.
    """
    who = actor(request, Scope.ADMIN)
    parsed = parse_day("day", day)
    metric = query_of(request, "metric", "dry_run").get("metric")
    collector = parts_of(request).collector
    if _flag(request, "dry_run", "metric"):
        closed = collector.would_close(parsed, metric)
    else:
        closed = collector.close_day(parsed, who, metric)
    return JSONResponse(
        {"closed_through": day, "metrics": list(closed.metrics), "days_with_reports": closed.folded}
    )


async def push_metrics(request: Request) -> Response:
    """Declare the metrics of a metrics.toml, sent as the body."""
    who = await run_in_threadpool(actor, request, Scope.ADMIN)
    weaken, revive = _flag(request, "weaken", "revive"), _flag(request, "revive", "weaken")
    file = parse_metrics(_text(await _body(request)))
    push = await run_in_threadpool(
        parts_of(request).collector.push_metrics,
        file.metrics.values(),
        who,
        weaken=weaken,
        revive=revive,
    )
    return JSONResponse(asdict(push))


def retire_metric(request: Request, name: str) -> Response:
    """Take no more reports of a metric, or of the version `params_id`."""
    who = actor(request, Scope.ADMIN)
    retired = parts_of(request).collector.retire_metric(
        known_name(name), who, query_of(request, "params_id").get("params_id")
    )
    return JSONResponse({"name": name, "retired": retired})


def pause_metric(request: Request, name: str) -> Response:
    """Take no reports of a metric for now; with `resume=true` take them again."""
    who = actor(request, Scope.ADMIN)
    resume = _flag(request, "resume")
    names = parts_of(request).collector.pause_metric(known_name(name), who, paused=not resume)
    return JSONResponse({"name": name, "paused": [] if resume else names})


def get_keys(request: Request) -> Response:
    """All keys, without their secrets."""
    actor(request, Scope.ADMIN)
    return JSONResponse(
        {"keys": [access.shown(row) for row in parts_of(request).collector.list_keys()]}
    )


async def create_key(request: Request) -> Response:
    """Make a key: `{"scope": ..., "label": ...}`. Its text is in this answer and nowhere else."""
    who = await run_in_threadpool(actor, request, Scope.ADMIN)
    fields = parse_strict_json(await _body(request))
    if not isinstance(fields, dict) or fields.keys() != {"scope", "label"}:
        raise RequestError('a key is asked for with {"scope": ..., "label": ...}')
    scope, label = fields["scope"], fields["label"]
    if scope not in list(Scope) or not isinstance(label, str):
        raise RequestError(f"scope is one of {', '.join(Scope)}, label is text")
    key = await run_in_threadpool(parts_of(request).collector.create_key, Scope(scope), label, who)
    return JSONResponse(
        {"key_id": key.key_id, "scope": key.scope, "label": key.label, "key": key.text}, 201
    )


def revoke_key(request: Request, key_id: str) -> Response:
    """Make a key worthless."""
    who = actor(request, Scope.ADMIN)
    parts_of(request).collector.revoke_key(key_id, who)
    return JSONResponse({"key_id": key_id, "revoked": True})


def get_audit(request: Request) -> Response:
    """The latest acts of admins and analysts, newest first; `limit` up to 1,000."""
    actor(request, Scope.ADMIN)
    limit = query_of(request, "limit").get("limit") or "100"
    if not (limit.isascii() and limit.isdigit() and 1 <= int(limit[:6]) <= MAX_AUDIT):
        raise RequestError(f"limit = {limit[:40]!a} is not a number from 1 to {MAX_AUDIT}")
    rows = parts_of(request).collector.read_audit(int(limit))
    return JSONResponse({"entries": [asdict(row) for row in rows]})


async def _body(request: Request) -> bytes:
    parts = parts_of(request)
    return await read_body(request.scope, request.receive, parts.body_bounds)


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise RequestError("the body is not UTF-8 text") from None


def _flag(request: Request, name: str, *others: str) -> bool:
    """Whether a query parameter is true; `others` are known beside it."""
    text = query_of(request, name, *others).get(name) or "false"
    if text not in ("true", "false"):
        raise RequestError(f"{name} = {text[:40]!a} is not true or false")
    return text == "true"


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
    return Response(parts.telemetry.render(), media_type=parts.telemetry.content_type)
