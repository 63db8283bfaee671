"""Errors that the collector raises, in the one tree of errors.

RapporError
`-- CollectorError             it is `ServerError`: some are raised by what servers share
    |-- SettingsError          a setting is wrong, or not safe as it stands
    |-- SchemaError            the database is not at this code's version
    |-- StorageError           the database cannot be reached or cannot write; nothing was counted
    |   |-- ConflictError      another process changed the same rows first; repeat
    |   |-- DamagedBlocksError   rows of closed days are not what was written
    |   `-- CounterFullError   a counter of one cohort takes no more reports
    |-- OverloadedError        the queue is full, or the collector is shutting down; try again
    |-- RequestError           the request itself is wrong
    |   |-- BodyTooLargeError
    |   |-- BodyTimeoutError
    |   |-- UnsupportedMediaError
    |   `-- RateLimitedError
    |-- AuthenticationError    no key, or one that is unknown or revoked
    |-- ScopeError             a key of another scope
    |-- SenderShownError       a request behind a relay that carries an address
    |-- RelayKeyError          a request for a relay key that is unknown or retired
    |-- BatchConflictError     a batch id that came before with another body
    |-- BatchTooLargeError     more reports than a batch may have here; none was counted
    |-- PositionError          a message of the broker was counted by another consumer
    |-- NotFoundError          no such metric, version or key
    |-- NotServedError         an aggregate that would tell too much, or is not there yet
    `-- MetricChangeError      a change of a metric that weakens privacy, unasked
"""

from __future__ import annotations

from rappor_server.errors import (
    AuthenticationError,
    BodyTimeoutError,
    BodyTooLargeError,
    ConflictError,
    NotFoundError,
    OverloadedError,
    RateLimitedError,
    RequestError,
    SchemaError,
    SettingsError,
    StorageError,
    drop_traces,
)
from rappor_server.errors import ServerError as CollectorError

__all__ = [
    "AuthenticationError",
    "BatchConflictError",
    "BatchTooLargeError",
    "BodyTimeoutError",
    "BodyTooLargeError",
    "CollectorError",
    "ConflictError",
    "CounterFullError",
    "DamagedBlocksError",
    "MetricChangeError",
    "NotFoundError",
    "NotServedError",
    "OverloadedError",
    "PositionError",
    "RateLimitedError",
    "RelayKeyError",
    "RequestError",
    "SchemaError",
    "ScopeError",
    "SenderShownError",
    "SettingsError",
    "StorageError",
    "UnsupportedMediaError",
    "drop_traces",
]


class CounterFullError(StorageError):
    """A counter of one cohort takes no more reports."""


class DamagedBlocksError(StorageError):
    """The stored rows of closed days are damaged."""


class PositionError(CollectorError):
    """A partition's position is not the expected one: another consumer has counted its messages."""


class UnsupportedMediaError(RequestError):
    """The content type or encoding of a body is not supported."""


class ScopeError(CollectorError):
    """The key is good for something else."""


class SenderShownError(CollectorError):
    """Whoever passed a request on left a header in it that may show its sender."""


class RelayKeyError(CollectorError):
    """A request was encrypted for a key that is not here, or not any more."""


class BatchConflictError(CollectorError):
    """The batch id came before with another body."""


class BatchTooLargeError(CollectorError):
    """A batch has more reports than this collector accepts in one; none of them was counted."""


class NotServedError(CollectorError):
    """An aggregate cannot be served yet, or not for this window; `details` give the reason and
    the remedy."""


class MetricChangeError(CollectorError):
    """A change of a metric would weaken privacy and was not asked for with `--weaken`."""
