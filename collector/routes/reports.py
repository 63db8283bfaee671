"""`POST /v1/reports`, which accepts a batch and answers, after the commit, for each report."""

from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from typing import Any

import msgspec
from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from collector.domain.access import MAX_AGE_OF_UNKNOWN
from collector.domain.access import Scope as KeyScope
from collector.domain.batch_writer import Receipt
from collector.domain.report_validation import REASONS, Refusal
from collector.domain.submission import Content, read_submission
from collector.routes.dependencies import AppComponents, Sender, media_type, read_body
from collector.routes.shapes import Batch, BatchResults
from rappor_core.wire.report import BINARY_CONTENT_TYPE, WIRE_VERSION
from rappor_server.errors import AuthenticationError
from rappor_server.problems import Problems

REPORTS_PATH = "/v1/reports"
OHTTP_PATH = "/v1/ohttp"
_ACCEPTED = {"status": "accepted"}
_REFUSED = {reason: {"status": "refused", "reason": reason.value} for reason in REASONS}
MAX_DETAILS = 32
Answer = tuple[int, list[tuple[bytes, bytes]], bytes]  # status, headers, body
_LARGE_BODY = 64 << 10  # decoded on another thread, so that small bodies need not wait


_BYTES = {"schema": {"type": "string", "format": "binary"}}
_PACKED = {"requestBody": {"content": {BINARY_CONTENT_TYPE: _BYTES}}}
_SEALED = {"requestBody": {"required": True, "content": {"message/ohttp-req": _BYTES}}}
_SEALED_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"content": {"message/ohttp-res": _BYTES}, "description": "A sealed answer"}
}
router = APIRouter()  # documents the bare routes, whose POST the app answers before FastAPI


@router.post(
    REPORTS_PATH, operation_id="postReports", response_model=BatchResults, openapi_extra=_PACKED
)
def post_reports(_who: Sender, _batch: Batch) -> None:
    """Count the reports in a batch. The answer is sent when they are on disk."""


@router.post(
    OHTTP_PATH,
    operation_id="postOblivious",
    response_class=Response,
    responses=_SEALED_ANSWER,
    openapi_extra=_SEALED,
)
def post_oblivious() -> None:
    """Count the reports in a batch that a relay forwarded in a sealed request (RFC 9458)."""


class ReportsEndpoint:
    """The route as an ASGI application, because FastAPI's own handling would double its cost."""

    def __init__(self, parts: AppComponents, problems: Problems) -> None:
        self._parts = parts
        self._problems = problems

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; an error becomes a problem document."""
        await send_answer(send, *await self.respond(scope, receive))

    async def respond(self, scope: Scope, receive: Receive) -> Answer:
        """Return the status, headers and body of the answer to a request."""
        digesting = DigestingReceive(receive)
        try:
            receipt = await accept_reports(scope, digesting, self._parts)
        except Exception as error:
            response = self._problems.answer(error, digesting.details())
            self._parts.telemetry.requests.labels(str(response.status_code)).inc()
            return response.status_code, response.raw_headers, bytes(response.body)
        self._parts.telemetry.count(receipt)
        body = answer(receipt)
        return 200, headers_of(b"application/json", body), body


def headers_of(kind: bytes, body: bytes) -> list[tuple[bytes, bytes]]:
    """Return the headers of an answer; `kind` is its content type."""
    return [(b"content-type", kind), (b"content-length", b"%d" % len(body))]


async def send_answer(
    send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    """Send a complete answer."""
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class DigestingReceive:
    """An ASGI `receive` that computes the digest of the body.

    A rejection contains the digest, so that a device drops a batch only if the collector has read
    exactly the bytes that the device sent, because a gateway may lose or change them.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._digest = sha256()
        self._is_whole = False

    async def __call__(self) -> Message:
        """Return the next message."""
        message = await self._receive()
        self._digest.update(message.get("body", b""))
        self._is_whole = not message.get("more_body", False)
        return message

    def details(self) -> dict[str, str]:
        """Return the member `body_sha256` of a problem document, if the whole body was read."""
        return {"body_sha256": self._digest.hexdigest()} if self._is_whole else {}


async def accept_reports(scope: Scope, receive: Receive, parts: AppComponents) -> Receipt:
    """Receive, parse and queue a batch; return its receipt when its reports are on disk."""
    headers: Mapping[bytes, bytes] = dict(scope["headers"])
    key, sender = None, parts.sender_of(scope)
    if parts.settings.require_keys:
        key = await _check_key(headers.get(b"authorization"), parts)
        parts.request_limit.take(key, sender)
    kind = media_type(headers.get(b"content-type"))
    content = Content(await read_body(scope, receive, parts.body_bounds), kind)
    read = partial(read_submission, content, keep=parts.queue.keeps_bodies)
    if len(content.body) > _LARGE_BODY:
        async with parts.large_bodies:  # decoding needs many times a body's size
            submission = await run_in_threadpool(read)
    else:
        submission = read()
    reports = min(submission.batch.num_reports, parts.settings.max_batch_reports)
    if key is not None:
        parts.report_limit.take(key, sender, reports)
    parts.shares.count(sender, reports)
    return await parts.queue.submit(submission)


async def _check_key(authorization: bytes | None, parts: AppComponents) -> str:
    """Return the id of a key of scope `report`; stale keys are reread on a different thread."""
    keys = parts.keys
    text = None if authorization is None else authorization.decode("latin-1")
    if keys.is_stale():
        await run_in_threadpool(keys.refresh)
    try:
        return keys.check(text, KeyScope.REPORT)
    except AuthenticationError:
        if text is None or not keys.is_stale(MAX_AGE_OF_UNKNOWN):
            raise
        await run_in_threadpool(keys.refresh)
        return keys.check(text, KeyScope.REPORT)


def answer(receipt: Receipt) -> bytes:
    """Return the answer as JSON, with a result for each report in order.

    A rejection is explained the first time that it occurs, up to MAX_DETAILS different
    explanations. All others have only a reason, so that a small body cannot cause a huge answer.
    """
    results = [_ACCEPTED] * receipt.accepted
    if receipt.accepted < len(receipt.results):
        results, explained = [], set[Refusal]()
        for refusal in receipt.results:
            if refusal is None:
                results.append(_ACCEPTED)
            elif len(explained) == MAX_DETAILS or refusal in explained:
                results.append(_REFUSED[refusal.reason])
            else:
                explained.add(refusal)
                results.append(_REFUSED[refusal.reason] | {"detail": refusal.detail})
    document = {
        "version": WIRE_VERSION,
        "batch_id": receipt.batch_id,
        "duplicate": receipt.duplicate,
        "results": results,
    }
    return msgspec.json.encode(document)
