"""Errors that only the service raises; `rappor_server.errors` has those of every server."""

from rappor_server.errors import ConflictError, RequestError, ServerError, StorageError

ServiceError = ServerError


class QuotaError(RequestError):
    """The request would exceed a limit of the person's role."""


class FieldError(RequestError):
    """A field of a form is invalid; `field` is its name, by which the form marks it."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


class RoleError(ServiceError):
    """The person's role does not allow the act."""


class NoGroupError(RoleError):
    """The person signing in at the identity provider is in no group that has a role.

    `subject` is the provider's id of the person."""

    def __init__(self, message: str, subject: str) -> None:
        super().__init__(message)
        self.subject = subject


class OriginError(ServiceError):
    """A write with a session that does not come from the service's own pages."""


class UnavailableError(ServiceError):
    """A resource that a request needs is not set up, is in use, or does not answer."""


def is_unreachable(error: Exception) -> bool:
    """Return whether an error means that the database failed."""
    return isinstance(error, StorageError) and not isinstance(error, ConflictError)
