"""Errors that every server of the project raises, in the one tree of errors."""

from collections.abc import Mapping
from typing import Any

from rappor_core.errors import RapporError


class ServerError(RapporError):
    """Base class of a server's errors. `details` are extra members of the problem document."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.details: Mapping[str, Any] = details


class SettingsError(ServerError, ValueError):
    """A setting is wrong, or is not safe as it is."""


class SchemaError(ServerError):
    """The database was made by another version of the code."""


class StorageError(ServerError):
    """The database cannot be reached or cannot write. What was not answered was not done."""


class DiskFullError(StorageError):
    """The disk of the database has no room. What was not answered was not done."""


class ConflictError(StorageError):
    """Another process changed the same rows first (read and repeat), or a name is taken."""


class RequestError(ServerError, ValueError):
    """The request is wrong in itself."""


class BodyTooLargeError(RequestError):
    """A request body is larger than its bound, as sent or after decompression."""


class BodyTimeoutError(RequestError):
    """The body did not arrive in time."""


class RateLimitedError(RequestError):
    """A key or address has sent too many requests."""


class OverloadedError(ServerError):
    """More requests wait than the bound allows, or the server is shutting down."""


class AuthenticationError(ServerError):
    """The request has no key or session, or one that is unknown, revoked or expired."""


class NotFoundError(ServerError, LookupError):
    """The named thing does not exist, or the person may not know that it does."""


def drop_traces(error: BaseException) -> None:
    """Remove the tracebacks from an error and from its causes.

    The frames of a traceback hold the body of the request, and one that awaited a thread's error
    holds the error, too: a cycle, which would keep both until a full garbage collection.
    """
    seen: set[int] = set()
    behind: list[BaseException | None] = [error]
    while behind:
        cause = behind.pop()
        if cause is not None and id(cause) not in seen:
            seen.add(id(cause))
            behind += [cause.__cause__, cause.__context__]
            cause.__traceback__ = None
