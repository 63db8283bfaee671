"""Which problem document answers an error of the service."""

from __future__ import annotations

from decoder.errors import DecodeError, RemoteError
from decoder_service.shell import errors
from rappor_core.errors import AggregateError, WireFormatError
from rappor_server.problems import SHARED_RULES, ProblemRule, rule_of

DISK_FULL = (
    "the disk of the service's database is full, so that nothing can be changed, deleted, or read "
    "with an entry in the audit log; an operator makes room there (moves backups away, or enlarges "
    "the disk), and then what is not needed can be deleted"
)
_CONFLICT = "something was changed at the same time; look at it and try again"

RULES = (
    ProblemRule(errors.QuotaError, 429, "quota"),
    ProblemRule(errors.RoleError, 403, "wrong-role"),
    ProblemRule(errors.OriginError, 403, "wrong-origin"),
    ProblemRule(errors.ConflictError, 409, "conflict", _CONFLICT),
    ProblemRule(errors.UnavailableError, 503, "unavailable"),
    ProblemRule(errors.DiskFullError, 503, "storage-unavailable", DISK_FULL),
    ProblemRule(RemoteError, 503, "collector-unavailable"),
    ProblemRule(WireFormatError, 422, "bad-aggregate"),
    ProblemRule(AggregateError, 422, "bad-aggregate"),
    ProblemRule(DecodeError, 422, "bad-request"),
    *SHARED_RULES,
)


def status_of(error: Exception) -> int:
    """The status code of the answer to an error."""
    return rule_of(error, RULES).status
