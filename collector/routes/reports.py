"""`POST /v1/reports`: a batch in, a result for each report out, after the commit."""

from __future__ import annotations

import json
from hashlib import blake2b

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from collector.body import media_type, read_body
from collector.errors import AuthenticationError
from collector.routes.parts import Parts, limit_address
from collector.service.acceptance import Refusal
from collector.service.access import Scope as KeyScope
from collector.service.keeper import MAX_AGE_OF_UNKNOWN
from collector.service.writing import Receipt, Submission
from rappor_core.report import WIRE_VERSION
from rappor_core.report_compact import decode_groups

_ACCEPTED = '{"status":"accepted"}'
_LARGE_BODY = 64 << 10  # decoded on another thread, so that small ones need not wait
_REPORT_OVERHEAD = 120  # bytes that a decoded report takes beside its bits


class ReportsEndpoint:
    """The route as an ASGI application: FastAPI's own handling would cost as much as the rest."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        response = await post_reports(Request(scope, receive), self._parts)
        await response(scope, receive, send)


async def post_reports(request: Request, parts: Parts) -> Response:
    """Count the reports of a batch; answer when they are on the disk."""
    limit_address(request, parts)
    if parts.settings.require_keys:
        parts.limits.by_key.take(await _check_key(request, parts))
    receipt = await parts.intake.submit(await _read(request, parts))
    parts.telemetry.count(receipt)
    return Response(answer(receipt), media_type="application/json")


async def _check_key(request: Request, parts: Parts) -> str:
    """The id of a key of scope `report`; keys are read again, on another thread, when old."""
    keys, authorization = parts.keys, request.headers.get("authorization")
    if keys.is_stale():
        await run_in_threadpool(keys.refresh)
    try:
        return keys.check(authorization, KeyScope.REPORT)
    except AuthenticationError:
        if authorization is None or not keys.is_stale(MAX_AGE_OF_UNKNOWN):
            raise
        await run_in_threadpool(keys.refresh)
        return keys.check(authorization, KeyScope.REPORT)


async def _read(request: Request, parts: Parts) -> Submission:
    settings = parts.settings
    kind = media_type(request.headers.get("content-type"))
    body = await read_body(
        request,
        parts.buffers,
        max_bytes=settings.max_body_bytes,
        max_inflated=settings.max_inflated_bytes,
        seconds=settings.body_seconds,
    )
    if len(body) > _LARGE_BODY:
        return await run_in_threadpool(_submission, body, kind, settings.max_batch_reports)
    return _submission(body, kind, settings.max_batch_reports)


def _submission(body: bytes, kind: str, max_reports: int) -> Submission:
    batch = decode_groups(body, kind, max_reports=max_reports)
    digest = blake2b(body, digest_size=16).digest()
    return Submission(batch, digest, len(body) + _REPORT_OVERHEAD * batch.num_reports)


def answer(receipt: Receipt) -> bytes:
    """The answer as JSON, a result for each report in their order."""
    results = ",".join([_result(refusal) if refusal else _ACCEPTED for refusal in receipt.results])
    duplicate = "true" if receipt.duplicate else "false"
    return (
        f'{{"version":{WIRE_VERSION},"batch_id":"{receipt.batch_id}",'
        f'"duplicate":{duplicate},"results":[{results}]}}'
    ).encode("ascii")


def _result(refusal: Refusal) -> str:
    return json.dumps(
        {"status": "refused", "reason": refusal.reason.value, "detail": refusal.detail}
    )
