"""The errors of an audit that cannot be carried out; a broken claim is not an error."""

from rappor_core.errors import RapporError


class AuditError(RapporError):
    """An audit that cannot run: a program does not start or answer, or nothing can be audited."""


class AuditedClientError(AuditError):
    """An audited client that refused a command, exited, or gave an unreadable answer."""
