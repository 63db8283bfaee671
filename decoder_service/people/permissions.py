"""All permissions in one place: roles for actions, SQL filters for rows, and limits.

A row that a person may not see is reported as missing."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import ColumnElement, false, func, or_, select, true
from sqlalchemy.orm import InstrumentedAttribute, Session

from decoder_service.shell.database import total
from decoder_service.shell.errors import QuotaError, RoleError
from decoder_service.shell.models import (
    LIVE,
    SHARED,
    AggregateRow,
    JobRow,
    ListRow,
    ListVersionRow,
    PersonRow,
    ReleaseRow,
    ReleaseState,
    ResultRow,
    aggregate_readers,
    result_readers,
)
from decoder_service.shell.settings import ServiceSettings

SERVICE_ID = "0" * 16  # the owner of jobs that the service starts automatically
_WAY_OUT = "remove results that you do not need: on their pages, or with DELETE /v1/results/ID"


class Role(StrEnum):
    """The role of a key or a session, in ascending order of rights."""

    VIEWER = "viewer"  # released results and the metrics
    ANALYST = "analyst"  # also own jobs, results and lists, and shared lists
    ADMIN = "admin"  # everything, including keys and the audit log


class Act(StrEnum):
    """The actions that require a role."""

    READ = "read"  # metrics, and visible results
    ANALYZE = "analyze"  # jobs, lists, aggregates, releasing own results, proposing releases
    REVIEW = "review"  # approving what another person proposes to release
    ADMINISTER = "administer"  # keys, the audit log


ALLOWED: dict[Act, frozenset[Role]] = {
    Act.READ: frozenset(Role),
    Act.ANALYZE: frozenset({Role.ANALYST, Role.ADMIN}),
    Act.REVIEW: frozenset({Role.ADMIN}),
    Act.ADMINISTER: frozenset({Role.ADMIN}),
}


@dataclass(frozen=True, slots=True)
class Person:
    """The person who sends a request."""

    id: str
    name: str
    role: Role
    key_id: str = ""  # The key, or the key with which a session was created

    @property
    def is_admin(self) -> bool:
        """Whether the person is an admin, who may see everything."""
        return self.role is Role.ADMIN

    def may(self, act: Act) -> bool:
        """Return whether the person's role allows an action."""
        return self.role in ALLOWED[act]


def require(person: Person, act: Act) -> None:
    """Raise RoleError unless the person's role allows an action."""
    if not person.may(act):
        roles = " or ".join(role for role in Role if role in ALLOWED[act])
        raise RoleError(
            f"the role is {person.role}; this needs {roles}: an admin gives it, by another key or "
            "by a group at the identity provider"
        )


def _for_analysts(person: Person, theirs: ColumnElement[bool]) -> ColumnElement[bool]:
    if person.is_admin:
        return true()
    return theirs if person.may(Act.ANALYZE) else false()


def own_rows(owner: InstrumentedAttribute[str]) -> Callable[[Person], ColumnElement[bool]]:
    """Return a filter for the rows that a person owns; for an admin, all rows."""
    return lambda person: _for_analysts(person, owner == person.id)


def visible_results(person: Person) -> ColumnElement[bool]:
    """Return a filter for released results and, for analysts, those of own or service jobs."""
    jobs = _results_of(person.id, SERVICE_ID)
    return or_(ResultRow.released.is_(True), _for_analysts(person, jobs))


def own_results(person: Person) -> ColumnElement[bool]:
    """Return a filter for the results of a person's own jobs, which they may release.

    For admins, these are all results."""
    return _for_analysts(person, _results_of(person.id))


def _results_of(*people: str) -> ColumnElement[bool]:
    columns = result_readers.c
    return ResultRow.id.in_(select(columns.result_id).where(columns.person_id.in_(people)))


def visible_releases(person: Person) -> ColumnElement[bool]:
    """Return a filter for approved releases and a person's proposals; approvers see all."""
    proposals = _for_analysts(person, ReleaseRow.proposer == person.id)
    return or_(ReleaseRow.state == ReleaseState.APPROVED, proposals)


def visible_lists(person: Person) -> ColumnElement[bool]:
    """Return a filter for a person's own and shared lists; an admin sees all, a viewer none."""
    return _for_analysts(person, (ListRow.owner == person.id) | (ListRow.visibility == SHARED))


def visible_aggregates(person: Person) -> ColumnElement[bool]:
    """Return a filter for the aggregates that a person uploaded or that their job has read."""
    columns = aggregate_readers.c
    shas = select(columns.sha256).where(columns.person_id == person.id)
    return _for_analysts(person, AggregateRow.sha256.in_(shas))


@dataclass(frozen=True, slots=True)
class Claimed:
    """A person whom a provider has identified."""

    subject: str  # Permanent
    name: str  # For display; not unique
    role: Role


def check_room(db: Session, settings: ServiceSettings, person: str, *, given: bool = False) -> None:
    """Raise QuotaError if a person's stored results leave no room for another.

    `given` means that a result was just assigned to the person, and must fit. Until the transaction
    ends, no other transaction can assign a result to that person."""
    if given:
        owner = select(PersonRow.id).where(PersonRow.id == person)
        db.execute(owner.with_for_update(key_share=True))  # on PostgreSQL
    size, most = result_bytes_of(db, person), settings.max_result_bytes_of_person
    if size < most or (given and size == most):
        return
    has = f"with this result yours would hold {size:,}" if given else f"your results hold {size:,}"
    raise QuotaError(f"{has} bytes; a person may hold {most:,}: {_WAY_OUT}")


def count_live(db: Session, owner: str) -> int:
    """Return the number of a person's queued and running jobs."""
    return total(db, select(func.count()).where(JobRow.owner == owner, JobRow.state.in_(LIVE)))


def result_bytes_of(db: Session, person: str) -> int:
    """Return the stored bytes of all results that a person holds, even if others hold them, too."""
    sizes = select(func.sum(ResultRow.stored)).join(result_readers)
    return total(db, sizes.where(result_readers.c.person_id == person))


def list_bytes_of(db: Session, owner: str) -> int:
    """Return the bytes of all versions of a person's lists."""
    versions = select(func.sum(ListVersionRow.size)).join(ListRow)
    return total(db, versions.where(ListRow.owner == owner))


def aggregate_bytes_of(db: Session, person: str) -> int:
    """Return the bytes of the aggregates that a person may read."""
    sizes = select(func.sum(func.length(AggregateRow.content))).join(aggregate_readers)
    return total(db, sizes.where(aggregate_readers.c.person_id == person))


def usage_of(db: Session, settings: ServiceSettings, person: Person) -> dict[str, dict[str, int]]:
    """Return, for each stored quantity, what a person uses (`held`) and its limit (`most`).

    The quantities are live jobs and the bytes of results, lists and aggregates."""
    most = settings.max_stored_bytes_of_person
    amounts = {
        "result_bytes": (result_bytes_of(db, person.id), settings.max_result_bytes_of_person),
        "list_bytes": (list_bytes_of(db, person.id), most),
        "aggregate_bytes": (aggregate_bytes_of(db, person.id), most),
        "jobs": (count_live(db, person.id), settings.max_jobs_of_person),
    }
    return {name: {"held": used, "most": limit} for name, (used, limit) in amounts.items()}
