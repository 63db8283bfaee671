"""Errors that only the collector raises; `rappor_server.errors` has those of every server."""

from rappor_server.errors import RequestError, ServerError, StorageError

CollectorError = ServerError  # some are raised by what servers share


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
