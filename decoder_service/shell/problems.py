"""Errors as problem documents (RFC 9457), of the form that the collector's have."""

from __future__ import annotations

from functools import partial

from starlette.responses import Response

from decoder.errors import DecodeError, RemoteError
from decoder_service.shell import errors
from rappor_core.errors import AggregateError, RapporError, WireFormatError
from rappor_server import problems
from rappor_server.logs import Log
from rappor_server.problems import RETRY_LATER, problem

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
DISK_FULL = (
    "the disk of the service's database is full, so that nothing can be changed, deleted, or read "
    "with an entry in the audit log; an operator makes room there (moves backups away, or enlarges "
    "the disk), and then what is not needed can be deleted"
)
_CONFLICT = "something was changed at the same time; look at it and try again"
_RETRY_SECONDS = "5"

status_of = partial(problems.status_of, table=STATUS)


def answer(error: Exception, log: Log) -> Response:
    """The problem document for an error; defects and storage errors are logged."""
    status, slug = status_of(error)
    if status == 500:
        log.crash(error)
        return problem(500, slug, "the service failed; nothing was changed")
    if status == 503:
        log.warning("request_failed", status=status, reason=str(error))
    details = error.details if isinstance(error, errors.ServiceError) else {}
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if status in RETRY_LATER:
        headers["Retry-After"] = _RETRY_SECONDS
    return problem(status, slug, _detail(error), details, headers)


def _detail(error: Exception) -> str:
    if isinstance(error, errors.ConflictError):
        return str(error) if error.details.get("name") else _CONFLICT
    if isinstance(error, errors.DiskFullError):
        return DISK_FULL
    return _UNAVAILABLE if isinstance(error, errors.StorageError) else str(error)
