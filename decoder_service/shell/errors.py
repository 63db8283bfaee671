"""The errors that only the service raises; `rappor_server.errors` has the common errors."""

from rappor_server.errors import ConflictError, RequestError, ServerError, StorageError

ServiceError = ServerError


class QuotaError(RequestError):
    """A request that would exceed a limit of the person's role."""


class FieldError(RequestError):
    """An invalid form field; `field` is its name, with which the form marks it."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


class RoleError(ServiceError):
    """An action that the person's role does not allow."""


class NoGroupError(RoleError):
    """A sign-in by a person whose groups at the identity provider have no role.

    `subject` is the provider's id for the person."""

    def __init__(self, message: str, subject: str) -> None:
        super().__init__(message)
        self.subject = subject


class OriginError(ServiceError):
    """A write with a session that does not come from the service's own pages."""


class UnavailableError(ServiceError):
    """A required resource that is not set up, is in use, or does not answer."""


def is_unreachable(error: Exception) -> bool:
    """Return whether an error means that the database failed."""
    return isinstance(error, StorageError) and not isinstance(error, ConflictError)
