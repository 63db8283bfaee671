"""Errors of the device, in the one tree of `rappor_core.errors`.

None of them reaches an app from `Client.record`, unless it runs in development mode.
"""

import sqlite3
from collections.abc import Iterable

from rappor_core.errors import RapporError, meant


class ClientError(RapporError):
    """Base class of the errors of the device."""


class UnknownMetricError(ClientError, KeyError):
    """A name that the metrics file does not declare."""

    def __init__(self, name: str, declared: Iterable[str]) -> None:
        """Say which names there are."""
        names = sorted(declared)
        message = f"metric {name!r} is not declared{meant(name, names)}; declared are "
        message += ", ".join(names) or "none"
        if any(other.startswith(f"{name}/") for other in names):
            message = f"metric {name!r} is of places: use record_location, or record_trip for pairs"
        super().__init__(message)

    def __str__(self) -> str:
        """Return the message alone (KeyError would quote it)."""
        return str(self.args[0])


class StateError(ClientError):
    """The state on disk cannot be used. condition: one word, for `Client.status`."""

    def __init__(self, message: str, condition: str = "state_unavailable") -> None:
        """Keep the condition alongside the sentence."""
        super().__init__(message)
        self.condition = condition


class StateBusyError(StateError):
    """The state is held by another process or thread at this moment."""

    def __init__(self, message: str) -> None:
        """Its condition is `state_busy`."""
        super().__init__(message, "state_busy")


class StateChangedError(StateError):
    """Another process has replaced or wiped the secret meanwhile: the state must be read again."""


class TransportError(ClientError):
    """A batch was not delivered; `retry` says whether it may be sent again.

    reason: one word, for counters.  retry: whether the same bytes may be sent again later.
    retry_after: seconds that the collector asked to wait, or None.
    """

    def __init__(
        self, message: str, *, reason: str, retry: bool, retry_after: float | None = None
    ) -> None:
        """Keep what the sender needs to decide."""
        super().__init__(message)
        self.reason = reason
        self.retry = retry
        self.retry_after = retry_after


def detail_of(error: Exception) -> str:
    """Return the type of an error; with its message if it is our own, which never holds a value."""
    name = type(error).__name__
    return f"{name}: {error}" if isinstance(error, RapporError) else name


def blame(error: Exception) -> str:
    """Classify an error: `trouble` with the state, a `mistake` of the call, or a `fault`."""
    if isinstance(error, StateError | sqlite3.Error | OSError):
        return "trouble"
    return "mistake" if isinstance(error, RapporError | TypeError) else "fault"
