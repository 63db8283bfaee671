"""Fix the versions of the lists that a specification names, so that its meaning does not change."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from decoder_service.jobs.specs import AreaSpec, CandidateSpec, JobSpec, KnownSpec, WeightSpec
from decoder_service.lists.rows import ListKind, ListVersionRow, load_lists, load_versions
from decoder_service.people.permissions import Person, visible_lists
from decoder_service.shell.errors import NotFoundError, RequestError
from decoder_service.shell.models import lists

_HOLDS = {
    ListKind.CANDIDATES: "it holds values without weights: name it under candidates",
    ListKind.WEIGHTS: "it holds weights: name it under weights, and as candidates a list of values",
    ListKind.FLOWS: "it holds known flows: name it under known",
    ListKind.AREAS: "it holds named areas: name it under areas",
}


@dataclass(frozen=True, slots=True)
class ResolvedSpec:
    """A specification whose lists have the numbers of their versions.

    candidates, weights, known, areas: SHA-256 of their contents, None where no list is named.
    """

    spec: JobSpec
    candidates: str | None
    weights: str | None
    known: str | None = None
    areas: str | None = None

    @property
    def digests(self) -> tuple[str | None, ...]:
        """Digests of the lists' versions, as they enter the digest of a specification."""
        more = (one for one in (self.weights, self.known, self.areas) if one is not None)
        return (self.candidates, *more)


def resolve_lists(connection: Connection, person: Person, spec: JobSpec) -> ResolvedSpec:
    """A specification with the number of each list's version: the one named, or else the latest.

    Raises NotFoundError for a list that is not there for this person, RequestError for one of
    another kind.
    """
    changes: dict[str, CandidateSpec | WeightSpec] = {}
    candidates = weights = known = areas = None
    if spec.candidates.list is not None:
        asked = spec.candidates.list, spec.candidates.version
        found = _version(connection, person, *asked, ListKind.CANDIDATES)
        changes["candidates"] = CandidateSpec(list=found.list_id, version=found.number)
        candidates = found.sha256
    if spec.weights is not None:
        asked = spec.weights.list, spec.weights.version
        found = _version(connection, person, *asked, ListKind.WEIGHTS)
        changes["weights"] = WeightSpec(list=found.list_id, version=found.number)
        weights = found.sha256
    if spec.known is not None:
        asked = spec.known.list, spec.known.version
        found = _version(connection, person, *asked, ListKind.FLOWS)
        changes["known"] = KnownSpec(list=found.list_id, version=found.number)
        known = found.sha256
    if spec.areas is not None:
        asked = spec.areas.list, spec.areas.version
        found = _version(connection, person, *asked, ListKind.AREAS)
        changes["areas"] = AreaSpec(list=found.list_id, version=found.number)
        areas = found.sha256
    return ResolvedSpec(spec.model_copy(update=changes), candidates, weights, known, areas)


def _version(
    connection: Connection, person: Person, list_id: str, number: int | None, kind: ListKind
) -> ListVersionRow:
    """A version of a list, the latest by default."""
    known = load_lists(connection, visible_lists(person) & (lists.c.id == list_id))
    if not known:
        raise NotFoundError(f"there is no list {list_id} that you may see; GET /v1/lists has yours")
    if known[0].kind != kind:
        raise RequestError(f"{kind}: list {list_id}: {_HOLDS[ListKind(known[0].kind)]}")
    for version in load_versions(connection, list_id):
        if number in (None, version.number):
            return version
    raise NotFoundError(f"list {list_id} has no version {number}; without one the latest is taken")
