"""Errors as problem documents (RFC 9457): one table from errors to status codes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from collector import errors
from rappor_core.errors import (
    AggregateError,
    EncapsulationError,
    MetricsFileError,
    RapporError,
    WireFormatError,
)
from rappor_server.logs import Log
from rappor_server.problems import RETRY_LATER, problem, status_of

# The first class that an error is an instance of decides.
STATUS: tuple[tuple[type[RapporError], int, str], ...] = (
    (errors.BodyTooLargeError, 413, "body-too-large"),
    (errors.BatchTooLargeError, 413, "batch-too-large"),
    (errors.BodyTimeoutError, 408, "body-timeout"),
    (errors.UnsupportedMediaError, 415, "unsupported-media"),
    (errors.RateLimitedError, 429, "rate-limited"),
    (errors.RequestError, 422, "bad-request"),
    (errors.AuthenticationError, 401, "no-valid-key"),
    (errors.ScopeError, 403, "wrong-scope"),
    (errors.SenderShownError, 503, "sender-shown"),
    (errors.RelayKeyError, 422, "relay-key"),
    (errors.BatchConflictError, 409, "batch-conflict"),
    (errors.NotFoundError, 404, "not-found"),
    (errors.NotServedError, 409, "not-served"),
    (errors.MetricChangeError, 409, "weakens-privacy"),
    (errors.OverloadedError, 503, "overloaded"),
    (errors.DamagedBlocksError, 500, "damaged-days"),
    (errors.StorageError, 503, "storage-unavailable"),
    (WireFormatError, 400, "not-a-batch"),
    (EncapsulationError, 400, "not-opened"),
    (MetricsFileError, 422, "bad-metrics"),
    (AggregateError, 422, "bad-aggregate"),
)
_DAMAGED = "closed days of this metric are damaged; the operator restores a backup"
_UNAVAILABLE = "the database is not available; send again later"


class Refuser:
    """Turns errors into answers, and logs those that the sender cannot mend."""

    def __init__(self, log: Log, retry_after: int) -> None:
        self._log = log
        self._retry_after = retry_after

    def answer(self, error: Exception, more: Mapping[str, Any] | None = None) -> Response:
        """The problem document for an error. With 503, 429 and 408 it says when to try again,
        with jitter.

        more: further members of the document. The error has no traceback afterwards: see
        `drop_traces`.
        """
        try:
            return self._answer(error, more or {})
        finally:
            errors.drop_traces(error)

    def _answer(self, error: Exception, more: Mapping[str, Any]) -> Response:
        status, slug = status_of(error, STATUS)
        if isinstance(error, errors.DamagedBlocksError):
            self._log.warning("request_failed", status=status, reason=str(error))
            return problem(status, slug, _DAMAGED)
        if status == 500:
            self._log.crash(error)
            return problem(500, slug, "the collector failed; nothing was counted")
        if status == 503:
            self._log.warning("request_failed", status=status, reason=str(error))
        detail = _UNAVAILABLE if isinstance(error, errors.StorageError) else str(error)
        details = error.details if isinstance(error, errors.CollectorError) else {}
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        if status in RETRY_LATER:
            headers = later(self._retry_after)
        return problem(status, slug, detail, {**details, **more}, headers)


def later(seconds: int) -> dict[str, str]:
    """A Retry-After of `seconds` to three times as many, at random, so that devices do not
    return at once."""
    return {"Retry-After": str(random.randint(seconds, 3 * seconds))}
