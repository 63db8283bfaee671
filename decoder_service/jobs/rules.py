"""Jobs as people see them: asked for, looked at, cancelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from decoder_service.jobs.claims import cancel_job
from decoder_service.jobs.specs import CandidateSpec, JobSpec, ListSpec, digest
from decoder_service.people.access import Resources
from decoder_service.people.permissions import (
    Act,
    Person,
    check_room,
    count_live,
    own_rows,
    require,
    visible_aggregates,
    visible_lists,
)
from decoder_service.shell.database import decoder_version, save, visible_row
from decoder_service.shell.errors import QuotaError, UnavailableError
from decoder_service.shell.models import (
    LIVE,
    AggregateRow,
    JobRow,
    JobState,
    ListKind,
    ListRow,
)
from rappor_server.errors import NotFoundError, RequestError

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs(Resources[JobRow]):
    """What people may do with jobs. Each call asks for the role, and sees what it may."""

    model = JobRow
    visible = own_rows(JobRow.owner)
    order = (JobRow.created.desc(), JobRow.id)

    def submit(self, person: Person, spec: JobSpec) -> JobRow:
        """Queue a job. While an equal one of the same person is live, that one is returned.

        Args:
            person: its owner.
            spec: what is wanted; lists and aggregates must be visible to the person.

        Returns:
            The job, queued.

        Raises:
            RoleError, RequestError, NotFoundError, QuotaError.
        """
        with self.database.writing() as db:
            return self.submit_in(db, person, spec)

    def submit_in(self, db: Session, person: Person, spec: JobSpec) -> JobRow:
        """Queue a job like `submit`, in a transaction of the caller."""
        require(person, Act.ANALYZE)
        check_room(db, self.settings, person.id)
        resolved = self.resolve(db, person, spec)
        spec = resolved.spec
        spec_digest = digest(spec.to_json(), *resolved.digests, decoder_version())
        same = (JobRow.owner == person.id, JobRow.spec_digest == spec_digest)
        twin = db.scalar(select(JobRow).where(*same, JobRow.state.in_(LIVE)))
        if twin is not None:
            return twin
        most = self.settings.max_jobs_of_person
        if count_live(db, person.id) >= most:
            raise QuotaError(f"you have {most} jobs that wait or run, as many as one may have")
        row = JobRow(
            id=self.new_id(),
            operation=spec.operation,
            metric=spec.source.collector.metric if spec.source.collector else "",
            spec=spec.to_json(),
            spec_digest=spec_digest,
            state=JobState.QUEUED,
            max_attempts=self.settings.job_attempts,
            owner=person.id,
            created=self.now(),
        )
        save(db, row)
        self.access.note(db, person, "submit-job", job=row.id, operation=row.operation)
        return self.one(db, person, row.id)

    def cancel(self, person: Person, job_id: str) -> JobRow:
        """Ask for the end of a job: one that waits ends at once, one that is over stays as it is.
        Raises as `get`."""
        require(person, Act.ANALYZE)
        with self.database.writing() as db:
            self.one(db, person, job_id)
            if cancel_job(db, job_id, self.now()) is not None:
                self.access.note(db, person, "cancel-job", job=job_id)
            return self.one(db, person, job_id)

    def resolve(self, db: Session, person: Person, spec: JobSpec) -> ResolvedSpec:
        """The specification with the numbers of its lists' versions, the latest where none is
        named, and their digests. Raises NotFoundError, UnavailableError for what is not there for
        this person; RequestError for a list of another kind."""
        for source in spec.sources:
            if source.collector is not None and self.settings.collector is None:
                raise UnavailableError("no collector is set up here; an operator sets `collector`")
            for sha in source.aggregates:
                seen = (visible_aggregates(person), AggregateRow.sha256 == sha)
                if not db.scalar(select(AggregateRow.sha256).where(*seen)):
                    raise NotFoundError(
                        f"there is no aggregate {sha} that you may see; upload its file"
                    )
        changes: dict[str, CandidateSpec | ListSpec] = {}
        sha256: dict[str, str] = {}
        for member, kind in LISTS.items():
            named: CandidateSpec | ListSpec | None = getattr(spec, member)
            if named is None or named.list is None:
                continue
            row = visible_row(db, ListRow, visible_lists(person), named.list)
            if row.kind != kind:
                raise RequestError(f"{kind}: list {row.id}: {_HOLDS[ListKind(row.kind)]}")
            version = row.version(named.version)
            changes[member] = named.model_copy(update={"version": version.number})
            sha256[member] = version.sha256
        return ResolvedSpec(spec.model_copy(update=changes), sha256)


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
