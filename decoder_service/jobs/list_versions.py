"""Fix the versions of the lists that a specification names, so that its meaning does not change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy.orm import Session

from decoder_service.jobs.specs import CandidateSpec, JobSpec, ListSpec
from decoder_service.lists.rows import ListKind
from decoder_service.people.permissions import Person, visible_lists
from decoder_service.shell.database import visible_row
from decoder_service.shell.errors import NotFoundError, RequestError
from decoder_service.shell.models import ListRow, ListVersionRow

_HOLDS = {
    ListKind.CANDIDATES: "it holds values without weights: name it under candidates",
    ListKind.WEIGHTS: "it holds weights: name it under weights, and as candidates a list of values",
    ListKind.FLOWS: "it holds known flows: name it under known",
    ListKind.AREAS: "it holds named areas: name it under areas",
}


LISTS = {  # members of a specification that name a list, and what that holds
    "candidates": ListKind.CANDIDATES,
    "weights": ListKind.WEIGHTS,
    "known": ListKind.FLOWS,
    "areas": ListKind.AREAS,
}


@dataclass(frozen=True, slots=True)
class ResolvedSpec:
    """A specification whose lists have the numbers of their versions.

    sha256: of their contents, by the members that name a list.
    """

    spec: JobSpec
    sha256: Mapping[str, str]

    @property
    def digests(self) -> tuple[str | None, ...]:
        """Digests of the lists' versions, as they enter the digest of a specification."""
        more = (self.sha256[name] for name in LISTS if name in self.sha256)
        return tuple(more) if "candidates" in self.sha256 else (None, *more)


def resolve_lists(db: Session, person: Person, spec: JobSpec) -> ResolvedSpec:
    """A specification with the number of each list's version: the one named, or else the latest.

    Raises NotFoundError for a list that is not there for this person, RequestError for one of
    another kind.
    """
    changes: dict[str, CandidateSpec | ListSpec] = {}
    sha256: dict[str, str] = {}
    for member, kind in LISTS.items():
        named: CandidateSpec | ListSpec | None = getattr(spec, member)
        if named is None or named.list is None:
            continue
        found = _version(db, person, named.list, named.version, kind)
        changes[member] = named.model_copy(update={"version": found.number})
        sha256[member] = found.sha256
    return ResolvedSpec(spec.model_copy(update=changes), sha256)


def _version(
    db: Session, person: Person, list_id: str, number: int | None, kind: ListKind
) -> ListVersionRow:
    """A version of a list, the latest by default."""
    row = visible_row(db, ListRow, visible_lists(person), list_id)
    if row.kind != kind:
        raise RequestError(f"{kind}: list {list_id}: {_HOLDS[ListKind(row.kind)]}")
    for version in row.versions:
        if number in (None, version.number):
            return version
    raise NotFoundError(f"list {list_id} has no version {number}; without one the latest is taken")
