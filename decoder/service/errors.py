"""What the service refuses, in the product's one tree of errors.

RapporError
`-- ServiceError
    |-- SettingsError          a setting is wrong, or not safe as it stands
    |-- SchemaError            the database is not at this code's version
    |-- StorageError           the database cannot be reached or cannot write
    |   `-- ConflictError      another process changed the same rows first, or the name is taken
    |-- RequestError           the request itself is wrong
    |   |-- BodyTooLargeError
    |   |-- BodyTimeoutError
    |   `-- QuotaError         more than the role allows
    |-- AuthenticationError    no key or session, or one that is unknown, revoked or over
    |-- RoleError              the role does not allow it
    |-- OriginError            a write of a browser that comes from another site
    |-- NotFoundError          no such row, or one that this person may not know of
    `-- UnavailableError       the collector does not answer, or no worker lives
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rappor_core.errors import RapporError


class ServiceError(RapporError):
    """Base of the service's errors. `details` are extra members of the problem document."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.details: Mapping[str, Any] = details


class SettingsError(ServiceError, ValueError):
    """A setting is wrong, or is not safe as it stands."""


class SchemaError(ServiceError):
    """The database was made by another version of the code."""


class StorageError(ServiceError):
    """The database cannot be reached or cannot write."""


class ConflictError(StorageError):
    """Another process changed the same rows first, or a name is taken."""


class RequestError(ServiceError, ValueError):
    """The request is wrong in itself."""


class BodyTooLargeError(RequestError):
    """The body is over the bound."""


class BodyTimeoutError(RequestError):
    """The body did not arrive in time."""


class QuotaError(RequestError):
    """More than the role allows."""


class AuthenticationError(ServiceError):
    """No key or session, or one that is unknown, revoked or over."""


class RoleError(ServiceError):
    """The role does not allow it."""


class OriginError(ServiceError):
    """A write with a session that does not come from the service's own pages."""


class NotFoundError(ServiceError, LookupError):
    """There is no such row, or one that this person may not know of."""


class UnavailableError(ServiceError):
    """Something that the service needs does not answer."""
