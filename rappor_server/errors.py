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
    """A setting is invalid or unsafe."""


class SchemaError(ServerError):
    """The database was created by another version of the code."""


class StorageError(ServerError):
    """The database cannot be reached or cannot write. Unanswered requests were not carried out."""


class DiskFullError(StorageError):
    """The disk of the database is full. Unanswered requests were not carried out."""


class ConflictError(StorageError):
    """Another process changed the same rows first (read and repeat), or a name is taken."""


class RequestError(ServerError, ValueError):
    """The request itself is invalid."""


class BodyTooLargeError(RequestError):
    """A request body exceeds its limit, as sent or after decompression."""


class BodyTimeoutError(RequestError):
    """The body did not arrive in time."""


class RateLimitedError(RequestError):
    """A key or address has sent too many requests."""


class OverloadedError(ServerError):
    """Too many requests are waiting, or the server is shutting down."""


class AuthenticationError(ServerError):
    """The request has no key or session, or one that is unknown, revoked or expired."""


class NotFoundError(ServerError, LookupError):
    """The named resource does not exist, or the person may not know that it does."""


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
