"""What all routes share: the running parts of the collector, and the check of keys."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from time import monotonic
from typing import TYPE_CHECKING, cast

from fastapi import Request
from starlette.types import Scope as ASGIScope

from collector.domain.access import MAX_AGE_OF_UNKNOWN, KeyKeeper, Scope
from collector.domain.commit_queue import BatchQueue
from collector.domain.operations import Collector
from collector.errors import NotFoundError, RequestError
from collector.request_body import GzipBounds
from collector.settings import Settings
from collector.store.database import CollectorDatabase
from collector.telemetry import Telemetry
from rappor_core.wire.report import MAX_METRIC_BYTES
from rappor_server.buffers import Buffers
from rappor_server.limits import OFFICE_SECONDS, KeyLimit, Names, RateLimit, SharedRateLimit
from rappor_server.readiness import Readiness
from rappor_server.request_body import sender_of
from rappor_server.unsent import Unsent

if TYPE_CHECKING:
    from collector.domain.relay_keys import RelayKeys  # needs a library that is optional

MAX_QUERY_VALUE = 200
RESERVED_REPORTS = 100  # of one key, that an address may send whatever others send
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


@dataclass(frozen=True, slots=True)
class RateLimits:
    """The rate limits in requests and reports, by address (of IPv6, by /64) and by key."""

    by_address: RateLimit
    by_key: KeyLimit
    reports_by_address: RateLimit
    reports_by_key: KeyLimit

    @property
    def shared(self) -> list[SharedRateLimit]:
        """The rate limits that all processes share and that are set."""
        found = (
            self.by_address,
            self.by_key.by_key,
            self.reports_by_address,
            self.reports_by_key.by_key,
        )
        return [one for one in found if isinstance(one, SharedRateLimit) and one.is_on]


def make_limits(settings: Settings, seconds: Callable[[], float] = monotonic) -> RateLimits:
    """The limits that the settings name. seconds: a clock."""
    if settings.rate_limit_store == "database":
        return _shared_limits(settings)
    return RateLimits(
        by_address=RateLimit(settings.max_requests_per_address, seconds=seconds),
        by_key=KeyLimit(settings.max_requests_per_key, seconds=seconds),
        reports_by_address=RateLimit(
            settings.max_reports_per_address,
            "reports",
            burst_seconds=OFFICE_SECONDS,
            seconds=seconds,
        ),
        reports_by_key=KeyLimit(
            settings.max_reports_per_key, "reports", reserve=RESERVED_REPORTS, seconds=seconds
        ),
    )


def _shared_limits(settings: Settings) -> RateLimits:
    """The same, of all processes together; the reserve of an address is each one's own."""
    names = Names((settings.rate_limit_secret or "").encode())
    requests, reports = settings.max_requests_per_key, settings.max_reports_per_key
    return RateLimits(
        by_address=SharedRateLimit(1, settings.max_requests_per_address, names),
        by_key=KeyLimit(requests, shared=SharedRateLimit(2, requests, names)),
        reports_by_address=SharedRateLimit(
            3, settings.max_reports_per_address, names, "reports", burst_seconds=OFFICE_SECONDS
        ),
        reports_by_key=KeyLimit(
            reports,
            "reports",
            reserve=RESERVED_REPORTS,
            shared=SharedRateLimit(4, reports, names, "reports"),
        ),
    )


@dataclass(frozen=True, slots=True)
class AppComponents:
    """The parts of a running app, made once in `create_app`."""

    settings: Settings
    collector: Collector
    queue: BatchQueue
    keys: KeyKeeper
    telemetry: Telemetry
    buffers: Buffers
    body_bounds: GzipBounds
    unsent: Unsent
    limits: RateLimits
    writing: CollectorDatabase  # of the queue alone: nobody who reads keeps reports waiting
    readiness: Readiness
    relay_keys: RelayKeys | None  # of requests through a relay, where it is set


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
    limit_address(request.scope, parts)
    if not parts.settings.require_keys:
        return "open"
    authorization = request.headers.get("authorization")
    if not parts.keys.is_stale(MAX_AGE_OF_UNKNOWN):
        parts.keys.check(authorization, *scopes)
    parts.keys.refresh()
    who = parts.keys.check(authorization, *scopes)
    parts.limits.by_key.take(who, sender_of(request.scope))
    return who


def limit_address(scope: ASGIScope, parts: AppComponents) -> None:
    """Count a request of an address. Raises RateLimitedError."""
    if parts.limits.by_address.is_on:
        parts.limits.by_address.take(sender_of(scope))


def limit_sender(scope: ASGIScope, parts: AppComponents) -> None:
    """Count a request before its body is read. Raises RateLimitedError if its address has none
    left.

    Raises RateLimitedError.
    """
    limit_address(scope, parts)
    if parts.limits.reports_by_address.is_on:
        parts.limits.reports_by_address.check(sender_of(scope))


def limit_reports(scope: ASGIScope, parts: AppComponents, key: str | None, reports: int) -> None:
    """Count the reports of a batch, of an address and of a key. Raises RateLimitedError."""
    limits = parts.limits
    if limits.reports_by_address.is_on:
        limits.reports_by_address.take(sender_of(scope), reports)
    if limits.reports_by_key.is_on and key is not None:
        limits.reports_by_key.take(key, sender_of(scope), reports)


def query_of(request: Request, *names: str) -> dict[str, str]:
    """The query's parameters. One that is not known, or stands twice, is refused, not ignored.

    Raises RequestError.
    """
    query = request.query_params
    for name in query:
        if name not in names:
            known = ", ".join(names)
            raise RequestError(f"query parameter {name[:40]!a} is not known; known are {known}")
        if len(query.getlist(name)) > 1:
            raise RequestError(f"query parameter {name} stands twice")
        if len(query[name]) > MAX_QUERY_VALUE:
            raise RequestError(
                f"query parameter {name} has {len(query[name])} characters; "
                f"{MAX_QUERY_VALUE} are taken"
            )
    return dict(query)


def known_name(name: str) -> str:
    """Check that a path's metric name has a possible form, since messages and the audit log
    repeat it.

    Raises NotFoundError.
    """
    if len(name) > MAX_METRIC_BYTES:
        raise NotFoundError(f"no metric has a name of {len(name)} characters; see GET /v1/metrics")
    return name


def parse_day(name: str, text: str) -> date:
    """Parse a date YYYY-MM-DD. Raises RequestError."""
    try:
        if not _DAY.fullmatch(text):
            raise ValueError
        return date.fromisoformat(text)
    except ValueError:
        raise RequestError(f"{name} = {text[:40]!a} is not a date YYYY-MM-DD") from None
