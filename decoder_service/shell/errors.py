"""Errors that the service raises, in the product's one tree of errors.

RapporError
`-- ServiceError               it is `ServerError`: some are raised by what servers share
    |-- SettingsError          a setting is wrong, or not safe as it is
    |-- SchemaError            the database is not at this code's version
    |-- StorageError           the database cannot be reached or cannot write
    |   |-- DiskFullError      it has no room
    |   `-- ConflictError      another process changed the same rows first, or the name is taken
    |-- RequestError           the request itself is wrong
    |   |-- BodyTooLargeError
    |   |-- BodyTimeoutError
    |   |-- FieldError         a field of a form, which is marked
    |   `-- QuotaError         more than the role allows
    |-- AuthenticationError    no key or session, or one that is unknown, revoked or over
    |-- RoleError              the role does not allow it
    |   `-- NoGroupError       the identity provider names no group that has a role
    |-- OriginError            a write of a browser that comes from another site
    |-- NotFoundError          no such row, or one that this person may not know of
    `-- UnavailableError       the collector does not answer, or no worker lives
"""

from __future__ import annotations

from rappor_server.errors import AuthenticationError as AuthenticationError
from rappor_server.errors import BodyTimeoutError as BodyTimeoutError
from rappor_server.errors import BodyTooLargeError as BodyTooLargeError
from rappor_server.errors import ConflictError as ConflictError
from rappor_server.errors import DiskFullError as DiskFullError
from rappor_server.errors import NotFoundError as NotFoundError
from rappor_server.errors import RequestError as RequestError
from rappor_server.errors import SchemaError as SchemaError
from rappor_server.errors import ServerError
from rappor_server.errors import SettingsError as SettingsError
from rappor_server.errors import StorageError as StorageError

ServiceError = ServerError


class QuotaError(RequestError):
    """The request would exceed a limit of the person's role."""


class FieldError(RequestError):
    """A field of a form is wrong. field: its name, by which the form marks it."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


class RoleError(ServiceError):
    """The person's role does not allow the act."""


class NoGroupError(RoleError):
    """The person who signs in at the identity provider is in no group that has a role. subject:
    who it is."""

    def __init__(self, message: str, subject: str) -> None:
        super().__init__(message)
        self.subject = subject


class OriginError(ServiceError):
    """A write with a session that does not come from the service's own pages."""


class UnavailableError(ServiceError):
    """Something that a request needs is not set up, is in use, or does not answer."""


def is_unreachable(error: Exception) -> bool:
    """Whether it is the database that failed."""
    return isinstance(error, StorageError) and not isinstance(error, ConflictError)
