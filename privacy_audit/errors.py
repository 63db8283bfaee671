"""The errors of an audit that cannot be carried out; a broken claim is not an error."""

from rappor_core.errors import RapporError


class AuditError(RapporError):
    """The audit cannot be run: a program does not start or answer, or nothing can be audited."""


class AuditedClientError(AuditError):
    """The audited client refused a command, ended, or gave an unreadable answer."""
