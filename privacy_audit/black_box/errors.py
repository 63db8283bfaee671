"""What can go wrong in an audit, besides that a claim is broken."""

from __future__ import annotations

from rappor_core.errors import RapporError


class AuditError(RapporError):
    """The audit cannot be run: the program under audit failed, or nothing can be audited."""
