"""The errors of publication, which extend the hierarchy of `rappor_core.errors`."""

from rappor_core.errors import RapporError


class PublicationError(RapporError, ValueError):
    """Data that cannot be published or evaluated as requested."""


class DomainError(PublicationError):
    """A declaration of values that cannot be used."""


class TableError(PublicationError):
    """A table that does not fit its declaration."""


class BudgetError(PublicationError):
    """An insufficient privacy budget."""


class PolicyError(PublicationError):
    """An unusable release policy, or a request that it does not allow."""


class ReleaseError(PublicationError):
    """A release that cannot be created, written or read."""


class VerificationError(PublicationError):
    """A release that does not match its manifest or signature."""
