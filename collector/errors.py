"""What the collector refuses, in the one tree of errors.

RapporError
`-- CollectorError
    |-- SettingsError          a setting is wrong, or not safe as it stands
    |-- SchemaError            the database is not at this code's version
    |-- StorageError           the database cannot be reached or cannot write; nothing was counted
    |   `-- StaleError         another process changed the same rows first; repeat
    |-- OverloadedError        the queue is full, or the collector is shutting down; try again
    |-- RequestError           the request itself is wrong
    |   |-- BodyTooLargeError
    |   |-- BodyTimeoutError
    |   |-- UnsupportedMediaError
    |   `-- RateLimitedError
    |-- AuthenticationError    no key, or one that is unknown or revoked
    |-- ScopeError             a key of another scope
    |-- BatchConflictError     a batch id that came before with another body
    |-- NotFoundError          no such metric, version or key
    |-- NotServedError         an aggregate that would tell too much, or is not there yet
    `-- MetricChangeError      a change of a metric that weakens privacy, unasked
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rappor_core.errors import RapporError


class CollectorError(RapporError):
    """Base of the collector's errors. `details` are extra members of the problem document."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.details: Mapping[str, Any] = details


class SettingsError(CollectorError, ValueError):
    """A setting is wrong, or is not safe as it stands."""


class SchemaError(CollectorError):
    """The database was made by another version of the code."""


class StorageError(CollectorError):
    """The database cannot be reached or cannot write. What was not answered was not counted."""


class StaleError(StorageError):
    """Another process changed the same rows first; read them again and repeat."""


class OverloadedError(CollectorError):
    """More is waiting than the bound allows, or the collector is shutting down."""


class RequestError(CollectorError, ValueError):
    """The request is wrong in itself."""


class BodyTooLargeError(RequestError):
    """The body is over the bound, as it is or inflated."""


class BodyTimeoutError(RequestError):
    """The body did not arrive in time."""


class UnsupportedMediaError(RequestError):
    """A content type or encoding that is not taken."""


class RateLimitedError(RequestError):
    """Too many requests from one key or address."""


class AuthenticationError(CollectorError):
    """No key, or one that is unknown or revoked."""


class ScopeError(CollectorError):
    """The key is good for something else."""


class BatchConflictError(CollectorError):
    """The batch id came before with another body."""


class NotFoundError(CollectorError, LookupError):
    """There is no such metric, version or key."""


class NotServedError(CollectorError):
    """This aggregate is not served: `details` say why, and from when or which window is."""


class MetricChangeError(CollectorError):
    """A change of a metric that weakens privacy, and was not asked for as such."""


def drop_traces(error: BaseException) -> None:
    """Take the tracebacks off an error that is answered, and off those behind it.

    The frames of a traceback hold the body of the request, and one that awaited a thread's error
    holds the error, too: a cycle, which would keep both until a full garbage collection.
    """
    seen: set[int] = set()
    behind: list[BaseException | None] = [error]
    while behind:
        one = behind.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            behind += [one.__cause__, one.__context__]
            one.__traceback__ = None
