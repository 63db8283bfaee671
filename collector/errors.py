"""The errors that only the collector raises; `rappor_server.errors` has the common ones."""

from rappor_server.errors import RequestError, ServerError, StorageError

CollectorError = ServerError  # because code that servers share raises some of them


class CounterFullError(StorageError):
    """A cohort's counter that cannot count more reports."""


class DamagedBlocksError(StorageError):
    """Stored rows of closed days that are damaged."""


class PositionError(CollectorError):
    """A position in a partition that changed because a different consumer counted its messages."""


class UnsupportedMediaError(RequestError):
    """An unsupported content type or encoding of a body."""


class ScopeError(CollectorError):
    """A key without the required scope."""


class SenderShownError(CollectorError):
    """A forwarded request with a header that may reveal its sender."""


class RelayKeyError(CollectorError):
    """A request was encrypted for a key that this collector does not have, or no longer has."""


class BatchConflictError(CollectorError):
    """A batch id that was used before with a different body."""


class BatchTooLargeError(CollectorError):
    """A batch with more reports than this collector accepts; none of its reports was counted."""


class NotServedError(CollectorError):
    """An aggregate that is not served yet, or not for this window.

    `details` state the reason and the remedy.
    """


class MetricChangeError(CollectorError):
    """A change to a metric that would weaken privacy, without `--weaken`."""
