"""What all routes share: the parts of the running collector, and the check of keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

from fastapi import Depends, Request
from fastapi.security import HTTPBearer
from starlette.types import Scope as ASGIScope

from collector.broker.broker_queue import BrokerQueue
from collector.domain.access import MAX_AGE_OF_UNKNOWN, KeyKeeper, Scope
from collector.domain.commit_queue import CommitQueue
from collector.domain.operations import Collector
from collector.errors import NotFoundError, RequestError
from collector.request_body import GzipBounds
from collector.routes.limits import KeyLimit, SenderShares, sender_of
from collector.settings import Settings
from collector.store.database import CollectorDatabase
from collector.telemetry import Telemetry
from rappor_core.wire.report import MAX_METRIC_BYTES
from rappor_server.readiness import Readiness

if TYPE_CHECKING:
    from collector.domain.relay_keys import RelayKeys  # needs a library that is optional

BatchQueue = CommitQueue | BrokerQueue
RESERVED_REPORTS = 100  # of one key, that an address may send whatever others send


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """The rate limits of each key, in requests and in reports."""

    requests: KeyLimit
    reports: KeyLimit


def make_limits(settings: Settings) -> KeyLimits:
    """The limits that the settings name."""
    return KeyLimits(
        KeyLimit(settings.max_requests_per_key),
        KeyLimit(settings.max_reports_per_key, "reports", reserve=RESERVED_REPORTS),
    )


@dataclass(frozen=True, slots=True)
class AppComponents:
    """The parts of a running app, made once in `create_app`."""

    settings: Settings
    collector: Collector
    queue: BatchQueue
    keys: KeyKeeper
    telemetry: Telemetry
    large_bodies: asyncio.Semaphore  # that are decoded at once
    body_bounds: GzipBounds
    limits: KeyLimits
    shares: SenderShares
    writing: CollectorDatabase  # of the queue alone: nobody who reads keeps reports waiting
    readiness: Readiness
    relay_keys: RelayKeys | None  # of requests through a relay, where it is set

    def sender_of(self, scope: ASGIScope) -> str:
        """The name by which limits know the sender of a request; "" for one through a relay."""
        return sender_of(scope, self.settings.sender_header)


def parts_of(request: Request) -> AppComponents:
    """The parts of the app that this request came to."""
    return cast(AppComponents, request.app.state.parts)


def actor(request: Request, *scopes: Scope) -> str:
    """The id of the key that sent a request, which must have one of the scopes; `open` where
    keys are not required.

    For analysts and admins, on a worker thread: for a key of theirs the keys are read afresh, so
    that a revoked one is refused at once. Whoever has none costs the database at most a look a
    second, all together. Raises AuthenticationError or ScopeError.
    """
    parts = parts_of(request)
    if not parts.settings.require_keys:
        return "open"
    authorization = request.headers.get("authorization")
    if not parts.keys.is_stale(MAX_AGE_OF_UNKNOWN):
        parts.keys.check(authorization, *scopes)
    parts.keys.refresh()
    who = parts.keys.check(authorization, *scopes)
    parts.limits.requests.take(who, parts.sender_of(request.scope))
    return who


def needs(*scopes: Scope) -> Callable[[Request], str]:
    """A dependency of routes that need a key of one of these scopes: the id of the key."""

    described = HTTPBearer(
        scheme_name=f"{'-or-'.join(scopes)}-key",
        description=f"A key of scope {' or '.join(scopes)}, which rappor keys create makes",
        auto_error=False,
    )

    def check(request: Request, _key: Any = Depends(described)) -> str:  # noqa: B008
        who = actor(request, *scopes)
        _refuse_strange_query(request)
        return who

    return check


def _refuse_strange_query(request: Request) -> None:
    """Refuse a query parameter that is not known or is given twice, which FastAPI ignores."""
    known = [one.alias for one in request.scope["route"].dependant.query_params]
    for name in request.query_params:
        if name not in known:
            text = f"query parameter {name[:40]!a} is not known; known are {', '.join(known)}"
            raise RequestError(text)
        if len(request.query_params.getlist(name)) > 1:
            raise RequestError(f"query parameter {name} is given twice")


Sender = Annotated[str, Depends(needs(Scope.REPORT))]
Admin = Annotated[str, Depends(needs(Scope.ADMIN))]
Analyst = Annotated[str, Depends(needs(Scope.AGGREGATE))]
Reader = Annotated[str, Depends(needs(Scope.AGGREGATE, Scope.ADMIN))]


def known_name(name: str) -> str:
    """Check that a path's metric name has a possible form, since messages and the audit log
    repeat it.

    Raises NotFoundError.
    """
    if len(name) > MAX_METRIC_BYTES:
        raise NotFoundError(f"no metric has a name of {len(name)} characters; see GET /v1/metrics")
    return name
