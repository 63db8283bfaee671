"""The errors that only the collector raises; `rappor_server.errors` has those of every server."""

from rappor_server.errors import RequestError, ServerError, StorageError

CollectorError = ServerError  # some are raised by code that servers share


class CounterFullError(StorageError):
    """A counter of one cohort cannot count more reports."""


class DamagedBlocksError(StorageError):
    """The stored rows of closed days are damaged."""


class PositionError(CollectorError):
    """A partition's position is not the expected one: another consumer has counted its messages."""


class UnsupportedMediaError(RequestError):
    """The content type or encoding of a body is not supported."""


class ScopeError(CollectorError):
    """The key has another scope."""


class SenderShownError(CollectorError):
    """The sender of a forwarded request left a header in it that may reveal its origin."""


class RelayKeyError(CollectorError):
    """A request was encrypted for a key that this collector does not have, or no longer has."""


class BatchConflictError(CollectorError):
    """The batch id was used before with another body."""


class BatchTooLargeError(CollectorError):
    """A batch has more reports than this collector accepts in one; none of them was counted."""


class NotServedError(CollectorError):
    """An aggregate cannot be served yet, or not for this window.

    `details` state the reason and the remedy.
    """


class MetricChangeError(CollectorError):
    """A change of a metric would weaken privacy and was not requested with `--weaken`."""
