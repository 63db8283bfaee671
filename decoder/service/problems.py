"""Errors as problem documents (RFC 9457), of the form that the collector's have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from decoder.errors import DecodeError, RemoteError
from decoder.service import errors
from decoder.service.logs import Log
from rappor_core.errors import AggregateError, RapporError, WireFormatError

PROBLEM_JSON = "application/problem+json"
URN = "urn:rappor-telemetry:problem:"

# The first class that an error is an instance of decides.
STATUS: tuple[tuple[type[RapporError], int, str], ...] = (
    (errors.BodyTooLargeError, 413, "body-too-large"),
    (errors.BodyTimeoutError, 408, "body-timeout"),
    (errors.QuotaError, 429, "quota"),
    (errors.RequestError, 422, "bad-request"),
    (errors.AuthenticationError, 401, "no-valid-key"),
    (errors.RoleError, 403, "wrong-role"),
    (errors.OriginError, 403, "wrong-origin"),
    (errors.NotFoundError, 404, "not-found"),
    (errors.ConflictError, 409, "conflict"),
    (errors.UnavailableError, 503, "unavailable"),
    (errors.StorageError, 503, "storage-unavailable"),
    (RemoteError, 503, "collector-unavailable"),
    (WireFormatError, 422, "bad-aggregate"),
    (AggregateError, 422, "bad-aggregate"),
    (DecodeError, 422, "bad-request"),
)
_UNAVAILABLE = "the database is not available; try again later"
_CONFLICT = "something was changed at the same time; look at it and try again"
_RETRY_SECONDS = "5"


def status_of(error: Exception) -> tuple[int, str]:
    """The status code and the last part of the type of an error's problem document."""
    return next(
        ((status, slug) for kind, status, slug in STATUS if isinstance(error, kind)),
        (500, "internal"),
    )


def answer(error: Exception, log: Log) -> Response:
    """The problem document of an error; the log is told of those that the sender cannot mend."""
    status, slug = status_of(error)
    if status == 500:
        log.crash(error)
        return problem(500, slug, "the service failed; nothing was changed")
    if status == 503:
        log.warning("request_failed", status=status, reason=str(error))
    details = error.details if isinstance(error, errors.ServiceError) else {}
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if status in (408, 429, 503):
        headers["Retry-After"] = _RETRY_SECONDS
    return problem(status, slug, _detail(error), details, headers)


def _detail(error: Exception) -> str:
    if isinstance(error, errors.ConflictError):
        return str(error) if error.details.get("name") else _CONFLICT
    return _UNAVAILABLE if isinstance(error, errors.StorageError) else str(error)


def problem(
    status: int,
    slug: str,
    detail: str,
    details: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A problem document."""
    document = {
        "type": URN + slug,
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        **(details or {}),
    }
    body = json.dumps(document).encode("ascii")
    return Response(body, status, dict(headers or {}), media_type=PROBLEM_JSON)
