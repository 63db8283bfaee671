"""The role of a person who signs in through an identity provider, from the groups in the
provider's claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from decoder_service.people.permissions import Role
from decoder_service.shell.errors import AuthenticationError, NoGroupError

MAX_SUBJECT = 255
_MAX_NAME = 100
_NAMES = ("preferred_username", "email", "name")


@dataclass(frozen=True, slots=True)
class Claimed:
    """A person as identified by a provider. subject: permanent. name: for people, not unique."""

    subject: str
    name: str
    role: Role


@dataclass(frozen=True, slots=True)
class ProviderRoles:
    """The roles that the provider's groups have.

    claim: where the provider lists groups; `a.b` is b within a.  groups: by role.  default: of who
    is in none of them, None to refuse them.
    """

    claim: str
    groups: Mapping[Role, frozenset[str]]
    default: Role | None

    def has_groups(self, claims: Mapping[str, Any]) -> bool:
        """Whether the claims list groups at all."""
        return _at(claims, self.claim) is not None

    def claimed(self, claims: Mapping[str, Any]) -> Claimed:
        """The person and role that claims stand for. Raises AuthenticationError, NoGroupError."""
        subject = claims.get("sub")
        if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT:
            raise AuthenticationError("the identity provider names no subject")
        found = _at(claims, self.claim)
        groups = {found} if isinstance(found, str) else set(filter(_is_text, found or ()))
        for role in reversed(Role):
            if groups & self.groups.get(role, frozenset()):
                return Claimed(subject, _name(claims, subject), role)
        if self.default is None:
            raise NoGroupError(
                "you are signed in at the identity provider, but in no group that may use this "
                "service; ask an admin",
                subject,
            )
        return Claimed(subject, _name(claims, subject), self.default)


def _at(claims: Mapping[str, Any], path: str) -> Any:
    """A claim by its name, or within others; a name with dots goes first."""
    if path in claims:
        return _listed(claims[path])
    found: Any = claims
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return _listed(found)


def _listed(found: Any) -> Any:
    return found if isinstance(found, str | list) else None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _name(claims: Mapping[str, Any], subject: str) -> str:
    """A name to show: printable, without blanks around it."""
    for claim in _NAMES:
        text = claims.get(claim)
        if isinstance(text, str) and text.strip().isprintable() and text.strip():
            return text.strip()[:_MAX_NAME].strip()
    return subject if subject.isprintable() else ascii(subject)[1:-1][:_MAX_NAME]
