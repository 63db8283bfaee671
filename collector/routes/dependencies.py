"""What all routes share: the running parts of the collector, and the check of keys."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, cast

from fastapi import Request

from collector.domain.access import MAX_AGE_OF_UNKNOWN, KeyKeeper, Scope
from collector.domain.commit_queue import BatchQueue
from collector.domain.operations import Collector
from collector.errors import NotFoundError, RequestError
from collector.request_body import GzipBounds
from collector.settings import Settings
from collector.store.database import CollectorDatabase
from collector.telemetry import Telemetry
from rappor_core.wire.report import MAX_METRIC_BYTES
from rappor_server.limits import KeyLimit, sender_of
from rappor_server.readiness import Readiness

if TYPE_CHECKING:
    from collector.domain.relay_keys import RelayKeys  # needs a library that is optional

MAX_QUERY_VALUE = 200
RESERVED_REPORTS = 100  # of one key, that an address may send whatever others send
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


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
    if not parts.settings.require_keys:
        return "open"
    authorization = request.headers.get("authorization")
    if not parts.keys.is_stale(MAX_AGE_OF_UNKNOWN):
        parts.keys.check(authorization, *scopes)
    parts.keys.refresh()
    who = parts.keys.check(authorization, *scopes)
    parts.limits.requests.take(who, sender_of(request.scope))
    return who


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
