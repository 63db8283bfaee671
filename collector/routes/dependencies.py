"""The shared base of all routes: the running collector's components, key checks, body reading."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, cast

from fastapi import Depends, Request
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers
from starlette.types import Receive
from starlette.types import Scope as ASGIScope

from collector.broker.broker_queue import BrokerQueue
from collector.domain.access import MAX_AGE_OF_UNKNOWN, KeyKeeper, Scope
from collector.domain.batch_writer import ReportWriter
from collector.domain.clock import Clock
from collector.domain.commit_queue import CommitQueue
from collector.domain.operations import Collector
from collector.domain.report_validation import ReportJudge
from collector.errors import UnsupportedMediaError
from collector.routes.limits import KeyLimit, SenderShares, network_of
from collector.settings import Settings
from collector.store.database import check_writable
from collector.telemetry import Telemetry
from rappor_core.wire.report import BINARY_CONTENT_TYPE, JSON_CONTENT_TYPE, MAX_METRIC_BYTES
from rappor_server.errors import BodyTooLargeError, NotFoundError, RequestError, SettingsError
from rappor_server.logs import Log
from rappor_server.request_bounds import BodyBounds
from rappor_server.serving import Readiness

if TYPE_CHECKING:
    from collector.domain.relay_keys import RelayKeys  # needs an optional library

LARGE_BODIES = 2
_ANSWER = 3  # a batch group's transaction lasts at most this multiple of database_seconds
RESERVED_REPORTS = 100  # per key: an address may send these regardless of others


class AppComponents:
    """The components of a running app, created once in `create_app`."""

    def __init__(self, settings: Settings, clock: Clock, log: Log) -> None:
        """Create the components; open no connection yet. Raises SettingsError if invalid."""
        self.settings = settings
        database = settings.open_database(settings.database_connections)
        self.collector = Collector(database, clock=clock)
        # only for the queue, so that reports never wait for readers
        self.writing = settings.open_database(1, max_seconds=_ANSWER * settings.database_seconds)
        self.telemetry = Telemetry()
        self.keys = KeyKeeper(self.collector.key_ring)
        self.large_bodies = asyncio.Semaphore(LARGE_BODIES)  # limits concurrent decoding
        self.body_bounds = GzipBounds(
            settings.max_body_bytes, settings.body_seconds, settings.max_inflated_bytes
        )
        self.request_limit = KeyLimit(settings.max_requests_per_key)
        self.report_limit = KeyLimit(
            settings.max_reports_per_key, "reports", reserve=RESERVED_REPORTS
        )
        self.shares = SenderShares()
        self.relay_keys: RelayKeys | None = None  # for devices behind a relay, if configured
        if settings.ohttp_keys is not None:
            try:
                module = import_module("collector.domain.relay_keys")
            except ModuleNotFoundError as error:
                raise SettingsError(
                    "ohttp_keys needs the library cryptography: "
                    "pip install 'rappor-telemetry[relay]'"
                ) from error
            self.relay_keys = module.RelayKeys(settings.ohttp_keys)
        self.queue, self.readiness = self._make_queue(clock, log)

    def _make_queue(self, clock: Clock, log: Log) -> tuple[CommitQueue | BrokerQueue, Readiness]:
        """Return the queue for batches (to the database or the broker), and its readiness check."""
        settings, on_commit = self.settings, self.telemetry.on_commit
        judge = ReportJudge(refuse_implausible=settings.refuse_implausible)
        if settings.broker is not None:
            front = BrokerQueue(settings, self.collector, judge, on_commit, log)
            return front, Readiness(front.check)
        writer = ReportWriter(
            self.writing, judge, clock, settings.clock_skew, settings.max_batch_reports
        )
        queue = CommitQueue(
            writer.write,
            max_queued_bytes=settings.max_queued_bytes,
            max_group=settings.max_group_reports,
            on_commit=on_commit,
            on_crash=log.crash,
        )
        return queue, Readiness(partial(check_writable, self.writing))

    def sender_of(self, scope: ASGIScope) -> str:
        """Return the name by which limits identify the sender of a request.

        It is a trusted proxy's header, or the address (for IPv6, its /64), or "" through a relay.
        """
        header = self.settings.sender_header
        if header is not None:
            return Headers(scope=scope).get(header, "")[:64]
        return network_of(scope["client"][0]) if scope.get("client") else ""


def parts_of(request: Request) -> AppComponents:
    """Return the components of the app that received this request."""
    return cast(AppComponents, request.app.state.parts)


def actor(request: Request, *scopes: Scope) -> str:
    """Return the id of the key that sent a request; `open` if keys are not required.

    The key must have one of the scopes. Call it on a worker thread, for analysts and admins. Their
    keys are read from the database, so that a revoked key is rejected immediately. Invalid keys
    together cause at most one database read per second. Raises AuthenticationError or ScopeError.
    """
    parts = parts_of(request)
    if not parts.settings.require_keys:
        return "open"
    authorization = request.headers.get("authorization")
    if not parts.keys.is_stale(MAX_AGE_OF_UNKNOWN):
        parts.keys.check(authorization, *scopes)
    parts.keys.refresh()
    who = parts.keys.check(authorization, *scopes)
    parts.request_limit.take(who, parts.sender_of(request.scope))
    return who


def needs(*scopes: Scope) -> Callable[[Request], str]:
    """Return a FastAPI dependency that requires a key with one of these scopes.

    The dependency returns the id of the key.
    """

    described = HTTPBearer(
        scheme_name=f"{'-or-'.join(scopes)}-key",
        description=f"A key of scope {' or '.join(scopes)}, from rappor keys create",
        auto_error=False,
    )

    def check(request: Request, _key: Any = Depends(described)) -> str:  # noqa: B008
        who = actor(request, *scopes)
        names = [parameter.alias for parameter in request.scope["route"].dependant.query_params]
        for name in request.query_params:  # FastAPI ignores unknown or repeated parameters
            if name not in names:
                text = f"query parameter {name[:40]!a} is not known; known are {', '.join(names)}"
                raise RequestError(text)
            if len(request.query_params.getlist(name)) > 1:
                raise RequestError(f"query parameter {name} is given twice")
        return who

    return check


Sender = Annotated[str, Depends(needs(Scope.REPORT))]
Admin = Annotated[str, Depends(needs(Scope.ADMIN))]
Analyst = Annotated[str, Depends(needs(Scope.AGGREGATE))]
Reader = Annotated[str, Depends(needs(Scope.AGGREGATE, Scope.ADMIN))]


def known_name(name: str) -> str:
    """Check that the metric name in a path is well-formed, and return it.

    Messages and the audit log quote the name. Raises NotFoundError if it is malformed.
    """
    if len(name) > MAX_METRIC_BYTES:
        raise NotFoundError(f"no metric has a name of {len(name)} characters; see GET /v1/metrics")
    return name


_GZIP = 31  # zlib's wbits for a gzip header and trailer


@dataclass(frozen=True, slots=True)
class GzipBounds(BodyBounds):
    """The limits for compressed bodies; `max_inflated` is the size in bytes after decompression."""

    max_inflated: int


async def read_body(scope: ASGIScope, receive: Receive, bounds: GzipBounds) -> bytes:
    """Read and decompress the body of a request. Raises RequestError if invalid."""
    encoding = dict(scope["headers"]).get(b"content-encoding", b"identity")
    name = encoding.decode("latin-1").strip().lower()
    if name not in ("identity", "gzip"):
        raise UnsupportedMediaError(f"content encoding {name[:40]!a} is not gzip or identity")
    body = await receive_body(scope, receive, bounds)
    return inflate(body, bounds.max_inflated) if name == "gzip" else body


async def receive_body(scope: ASGIScope, receive: Receive, bounds: BodyBounds) -> bytes:
    """Receive a whole body, still compressed.

    Raises BodyTooLargeError (possibly from the headers alone), BodyTimeoutError, or RequestError if
    the body ends early.
    """
    bounds.check_stated(scope)
    bounded, chunks, more = bounds.bounded(receive), list[bytes](), True
    while more:
        message = await bounded()
        chunks.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(chunks)


def media_type(content_type: bytes | None) -> str:
    """Check that a content type is JSON or the binary form, and return it without parameters.

    Raises UnsupportedMediaError if it is neither.
    """
    name, _, parameters = (content_type or b"").decode("latin-1").partition(";")
    name = name.strip().lower()
    if name not in (JSON_CONTENT_TYPE, BINARY_CONTENT_TYPE):
        raise UnsupportedMediaError(
            f"content type {name[:80]!a} is neither {JSON_CONTENT_TYPE} nor {BINARY_CONTENT_TYPE}"
        )
    parameters = parameters.strip().lower().replace('"', "")
    if parameters not in ("", "charset=utf-8"):
        raise UnsupportedMediaError(f"content type parameter {parameters[:40]!a} is not accepted")
    return name


def inflate(body: bytes, max_bytes: int) -> bytes:
    """Decompress one gzip member; even a decompression bomb uses no more memory than the limit."""
    inflater = zlib.decompressobj(_GZIP)
    try:
        plain = inflater.decompress(body, max_bytes + 1)
    except zlib.error:
        raise RequestError("the body is not gzip, as its content encoding says") from None
    if len(plain) > max_bytes:
        raise BodyTooLargeError(f"the body inflates to more than {max_bytes} bytes")
    if not inflater.eof or inflater.unused_data:
        raise RequestError("the gzip body ends early, or data follows it")
    return plain
