"""The errors that every server raises, in the hierarchy of `rappor_core.errors`."""

from collections.abc import Mapping
from typing import Any

from rappor_core.errors import RapporError


class ServerError(RapporError):
    """The base class of a server's errors; `details` are extra members of the problem document."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.details: Mapping[str, Any] = details


class SettingsError(ServerError, ValueError):
    """A setting that is invalid or unsafe."""


class SchemaError(ServerError):
    """A database that was created by a different version of the code."""


class StorageError(ServerError):
    """A database that is unreachable or cannot write. Unanswered requests were not carried out."""


class DiskFullError(StorageError):
    """A database on a full disk. Unanswered requests were not carried out."""


class ConflictError(StorageError):
    """A name that is taken, or rows that another process changed first (read again and retry)."""


class RequestError(ServerError, ValueError):
    """A request that is invalid in itself."""


class BodyTooLargeError(RequestError):
    """A request body that exceeds its limit, as sent or after decompression."""


class BodyTimeoutError(RequestError):
    """A request body that did not arrive in time."""


class RateLimitedError(RequestError):
    """A key or address that has sent too many requests."""


class OverloadedError(ServerError):
    """A server with too many waiting requests, or one that is shutting down."""


class AuthenticationError(ServerError):
    """A request without a valid key or session (missing, unknown, revoked or expired)."""


class NotFoundError(ServerError, LookupError):
    """A resource that does not exist, or whose existence the user may not know."""


def drop_traces(error: BaseException) -> None:
    """Remove the tracebacks from an error and its causes.

    The frames of a traceback reference the body of the request. A frame that awaited a thread's
    error references the error, too: a cycle that would keep both until a full garbage collection.
    """
    seen: set[int] = set()
    behind: list[BaseException | None] = [error]
    while behind:
        cause = behind.pop()
        if cause is not None and id(cause) not in seen:
            seen.add(id(cause))
            behind += [cause.__cause__, cause.__context__]
            cause.__traceback__ = None
