"""Errors of publication, in the product's one tree (`rappor_core.errors`)."""

from rappor_core.errors import RapporError


class PublicationError(RapporError, ValueError):
    """The data cannot be published, or judged, as was asked."""


class DomainError(PublicationError):
    """A declaration of modalities that cannot be used."""


class TableError(PublicationError):
    """A table that does not fit what was declared of it."""


class BudgetError(PublicationError):
    """A privacy budget that does not suffice for what was asked."""


class PolicyError(PublicationError):
    """A release policy that cannot be used, or something that it does not allow."""


class ReleaseError(PublicationError):
    """A release that cannot be made, written or read."""


class VerificationError(PublicationError):
    """A release that is not what its manifest, or its signature, says."""
