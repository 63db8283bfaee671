"""Errors of publication, subclasses of the product's `rappor_core.errors`."""

from rappor_core.errors import RapporError


class PublicationError(RapporError, ValueError):
    """The data cannot be published, or evaluated, as requested."""


class DomainError(PublicationError):
    """A declaration of values that cannot be used."""


class TableError(PublicationError):
    """A table that does not fit its declaration."""


class BudgetError(PublicationError):
    """A privacy budget that does not suffice."""


class PolicyError(PublicationError):
    """An unusable release policy, or a request that it does not allow."""


class ReleaseError(PublicationError):
    """A release that cannot be created, written or read."""


class VerificationError(PublicationError):
    """A release that does not match its manifest or signature."""
