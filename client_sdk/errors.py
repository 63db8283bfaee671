"""The device's errors, which extend the hierarchy of `rappor_core.errors`.

`Client.record` raises these errors to an app only in development mode.
"""

import sqlite3
from collections.abc import Iterable

from rappor_core.errors import RapporError, meant


class ClientError(RapporError):
    """The base class of all device errors."""


class UnknownMetricError(ClientError, KeyError):
    """A metric name that is not declared in the metrics file."""

    def __init__(self, name: str, declared: Iterable[str]) -> None:
        names = sorted(declared)
        message = f"metric {name!r} is not declared{meant(name, names)}; declared are "
        message += ", ".join(names) or "none"
        if any(other.startswith(f"{name}/") for other in names):
            message = f"metric {name!r} is for places: use record_location, or record_trip"
        super().__init__(message)

    def __str__(self) -> str:
        return str(self.args[0])


class StateError(ClientError):
    """An unusable state on disk; `condition` is the one-word reason for `Client.status`."""

    def __init__(self, message: str, condition: str = "state_unavailable") -> None:
        super().__init__(message)
        self.condition = condition


class StateBusyError(StateError):
    """A state that another process or thread is using at the moment."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "state_busy")


class StateChangedError(StateError):
    """A secret that another process has replaced or wiped, so that the state must be read again."""


class TransportError(ClientError):
    """An error that prevented the delivery of a batch.

    Attributes:
        reason: One word, for counters.
        retry: Whether the same bytes may be sent again later.
        retry_after: The seconds to wait, as the collector asked, or None.
    """

    def __init__(
        self, message: str, *, reason: str, retry: bool, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry = retry
        self.retry_after = retry_after


def detail_of(error: Exception) -> str:
    """Return an error's type; for our own errors, which contain no values, add the message."""
    name = type(error).__name__
    return f"{name}: {error}" if isinstance(error, RapporError) else name


def blame(error: Exception) -> str:
    """Classify an error as `trouble` with the state, `mistake` in the call, or internal `fault`."""
    if isinstance(error, StateError | sqlite3.Error | OSError):
        return "trouble"
    return "mistake" if isinstance(error, RapporError | TypeError) else "fault"
