"""Errors of encapsulated messages, in the tree of `rappor_core.errors`. None holds plain text."""

from __future__ import annotations

from rappor_core.errors import RapporError


class EncapsulationError(RapporError):
    """Bytes that are not an encapsulated message, or that none of the keys opens."""


class UnknownKeyError(EncapsulationError):
    """A request for a key that its receiver does not have, or not any more."""
