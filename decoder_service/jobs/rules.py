"""Operations that people perform on jobs, and statements with which workers claim and end jobs.

A held job has a token, an attempt and a lease. Every change names token and attempt, so that a late
worker cannot change a job that another worker has claimed. Leases use the clock of the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.orm import Session, aliased

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
from decoder_service.shell.database import (
    CLAIM_LOCK,
    changed,
    decoder_version,
    now,
    save,
    visible_row,
)
from decoder_service.shell.errors import QuotaError, UnavailableError
from decoder_service.shell.models import (
    HELD,
    LIVE,
    AggregateRow,
    JobRow,
    JobState,
    ListKind,
    ListRow,
    WorkerRow,
)
from rappor_server.database import check_commits
from rappor_server.errors import NotFoundError, RequestError

_MIN_STEP = 1e-6  # the minimum seconds between two starts
_HOLDS = {
    ListKind.CANDIDATES: "it holds values without weights: name it under candidates",
    ListKind.WEIGHTS: "it holds weights: name it under weights, and as candidates a list of values",
    ListKind.FLOWS: "it holds known flows: name it under known",
    ListKind.AREAS: "it holds named areas: name it under areas",
}
LISTS = {  # members of a specification that name a list, and the list's kind
    "candidates": ListKind.CANDIDATES,
    "weights": ListKind.WEIGHTS,
    "known": ListKind.FLOWS,
    "areas": ListKind.AREAS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs(Resources[JobRow]):
    """Operations on jobs, each of which checks the person's role and shows only visible jobs."""

    model = JobRow
    visible = own_rows(JobRow.owner)
    order = (JobRow.created.desc(), JobRow.id)

    def submit(self, person: Person, spec: JobSpec) -> JobRow:
        """Queue a job, or return the person's identical job if it is live.

        Args:
            person: The owner.
            spec: The specification; its lists and aggregates must be visible to the person.

        Returns:
            The new or existing job.

        Raises:
            RoleError, RequestError, NotFoundError, QuotaError.
        """
        with self.database.writing() as db:
            return self.submit_in(db, person, spec)

    def submit_in(self, db: Session, person: Person, spec: JobSpec) -> JobRow:
        """Queue a job like `submit`, in the caller's transaction."""
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
            raise QuotaError(f"you have {most} queued or running jobs, the maximum")
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
        """End a queued job now, a running job soon; skip ended jobs. Raises the errors of `get`."""
        require(person, Act.ANALYZE)
        with self.database.writing() as db:
            self.one(db, person, job_id)
            if cancel_job(db, job_id, self.now()) is not None:
                self.access.note(db, person, "cancel-job", job=job_id)
            return self.one(db, person, job_id)

    def resolve(self, db: Session, person: Person, spec: JobSpec) -> ResolvedSpec:
        """Return the specification with list versions (the latest by default) and their digests.

        Raises NotFoundError or UnavailableError if this person cannot use a list or aggregate, and
        RequestError if a list has a different kind."""
        for source in spec.sources:
            if source.collector is not None and self.settings.collector is None:
                raise UnavailableError("no collector is set up here; an operator sets `collector`")
            for sha in source.aggregates:
                where = (visible_aggregates(person), AggregateRow.sha256 == sha)
                if not db.scalar(select(AggregateRow.sha256).where(*where)):
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
    """A specification in which each list has a version number, with the lists' digests."""

    spec: JobSpec
    sha256: Mapping[str, str]  # The digests of the lists' contents, by member

    @property
    def digests(self) -> tuple[str | None, ...]:
        """Digests of the lists, candidates first (None if absent), for a specification's digest."""
        more = (self.sha256[name] for name in LISTS if name in self.sha256)
        return tuple(more) if "candidates" in self.sha256 else (None, *more)


@dataclass(frozen=True, slots=True)
class Hold:
    """A worker's claim on a job, which every change of the job names."""

    job_id: str
    token: str
    attempt: int

    def where(self) -> ColumnElement[bool]:
        """Return the SQL condition that the job is still held under this claim."""
        return (
            (JobRow.id == self.job_id)
            & (JobRow.token == self.token)
            & (JobRow.attempt == self.attempt)
        )

    def change(self, db: Session, *states: JobState, **values: Any) -> bool:
        """Change the job; return False if the claim is over or the job is in a different state."""
        where = self.where() & JobRow.state.in_(states)
        return changed(db, update(JobRow).where(where).values(values)) == 1


def claim(db: Session, worker: str, token: str, lease: float) -> Hold | None:
    """Claim the next job, from the owner with the fewest running jobs who has waited longest.

    A job is skipped if its specification is already being computed: its result will exist.

    Args:
        db: A writing transaction.
        worker: The id of the worker.
        token: A new random token.
        lease: The lease in seconds.

    Returns:
        The hold; None if there is no job.
    """
    # otherwise two concurrent claims could take jobs with the same specification
    check_commits(db.connection(), f"pg_advisory_xact_lock({CLAIM_LOCK})")
    job_id = db.execute(_next()).scalar()
    if job_id is None:
        return None
    at = now(db)
    latest = db.execute(select(func.max(JobRow.started))).scalar() or 0.0
    values: dict[str, Any] = {
        "state": JobState.RUNNING,
        "stage": "starting",
        "done": 0,
        "total": 0,
        "attempt": JobRow.attempt + 1,
        "worker": worker,
        "token": token,
        "lease": at + lease,
        "started": max(at, latest + _MIN_STEP),  # orders the owners even if the clock goes back
    }
    queued = (JobRow.id == job_id) & (JobRow.state == JobState.QUEUED)
    if changed(db, update(JobRow).where(queued).values(values)) != 1:
        return None
    attempt = db.execute(select(JobRow.attempt).where(JobRow.id == job_id)).scalar_one()
    return Hold(job_id, token, int(attempt))


def _next() -> Any:
    """Return a query that selects the id of the next job to claim, and locks its row."""
    other = aliased(JobRow)
    num_held = (
        select(func.count())
        .where(other.owner == JobRow.owner, other.state.in_(HELD))
        .scalar_subquery()
    )
    served = (
        select(func.coalesce(func.max(other.started), 0.0))
        .where(other.owner == JobRow.owner)
        .scalar_subquery()
    )
    twin = select(1).where(other.spec_digest == JobRow.spec_digest, other.state.in_(HELD))
    return (
        select(JobRow.id)
        .where(JobRow.state == JobState.QUEUED, ~twin.exists())
        .order_by(num_held, served, JobRow.created, JobRow.id)
        .limit(1)
        .with_for_update(of=JobRow, skip_locked=True)
    )


def load_held(db: Session, hold: Hold) -> JobRow | None:
    """Return the job of a claim, or None if the claim is over."""
    return db.scalar(select(JobRow).where(hold.where()))


def states_of(db: Session, holds: Collection[Hold]) -> dict[Hold, JobState]:
    """Return the states of the jobs whose claims are still valid."""
    jobs = select(JobRow).where(JobRow.id.in_([hold.job_id for hold in holds]))
    states = {
        Hold(row.id, row.token, row.attempt): JobState(row.state)
        for row in db.scalars(jobs)
        if row.token
    }
    return {hold: states[hold] for hold in holds if hold in states}


def renew(db: Session, hold: Hold, lease: float) -> bool:
    """Extend the lease of a claim; return False if the claim is over, so the work must stop."""
    return hold.change(db, *HELD, lease=now(db) + lease)


def save_progress(db: Session, hold: Hold, stage: str, done: int, total: int) -> bool:
    """Store a job's progress; return False if the claim is over."""
    return hold.change(db, JobState.RUNNING, stage=_storable(stage)[:100], done=done, total=total)


def end(
    db: Session, hold: Hold, state: JobState, reason: str = "", result: str | None = None
) -> bool:
    """End a job; return False, without a change, if it is not held or is in a different state.

    A cancelled job must have been cancelling; for any other end it must have been running."""
    before = JobState.CANCELLING if state is JobState.CANCELLED else JobState.RUNNING
    values = {"state": state, "reason": _storable(reason)[:2000], "result_id": result}
    return hold.change(db, before, **values, ended=now(db), token=None, lease=None)


def _storable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")


def give_back(db: Session, hold: Hold) -> bool:
    """Queue a held job again, because its worker shuts down; the attempt does not count."""
    values = {"state": JobState.QUEUED, "attempt": JobRow.attempt - 1}
    return hold.change(db, JobState.RUNNING, **values, stage="", token=None, lease=None)


def cancel_job(db: Session, job_id: str, at: float) -> JobState | None:
    """Cancel a job: a queued job ends immediately, a running job becomes `cancelling`.

    Returns the new state; None for a job that has ended."""
    queued = update(JobRow).where(JobRow.id == job_id, JobRow.state == JobState.QUEUED)
    ended = {"state": JobState.CANCELLED, "ended": at, "reason": "cancelled before it started"}
    if changed(db, queued.values(ended)):
        return JobState.CANCELLED
    running = update(JobRow).where(JobRow.id == job_id, JobRow.state.in_(HELD))
    if changed(db, running.values(state=JobState.CANCELLING)):
        return JobState.CANCELLING
    return None


def take_over(db: Session) -> int:
    """End or requeue jobs with an expired lease, whose workers are dead; return their number."""
    why = "its workers died while it ran"
    return free(db, JobRow.lease < now(db), why, "cancelled; its worker was gone")


def free(
    db: Session, which: ColumnElement[bool], lost: str, cancelled: str = "cancelled while it ran"
) -> int:
    """Requeue or end jobs that are no longer held; return their number.

    Args:
        db: A writing transaction.
        which: The SQL condition that selects the jobs.
        lost: The reason to store for jobs that have no attempt left.
        cancelled: The reason to store for jobs that were cancelling.
    """
    freed: dict[str, Any] = {"token": None, "lease": None}
    over, total = freed | {"ended": now(db)}, 0
    abandoned = {"state": JobState.ABANDONED, "reason": f"{lost}; all attempts are used up"}
    runs = JobRow.state == JobState.RUNNING
    for state, values in (
        (JobRow.state == JobState.CANCELLING,
         over | {"state": JobState.CANCELLED, "reason": cancelled}),
        (runs & (JobRow.attempt >= JobRow.max_attempts), over | abandoned),
        (runs, freed | {"state": JobState.QUEUED, "stage": ""}),
    ):  # fmt: skip
        total += changed(db, update(JobRow).where(state, which).values(values))
    return total


def see_worker(db: Session, row: WorkerRow, seconds: float) -> None:
    """Store a worker's heartbeat, and delete workers without one for this many seconds."""
    at = now(db)
    if not changed(db, update(WorkerRow).where(WorkerRow.id == row.id).values(seen=at)):
        save(db, replace(row, started=at, seen=at))
    db.execute(delete(WorkerRow).where(WorkerRow.seen < at - seconds))


def live_workers(db: Session, seconds: float) -> list[WorkerRow]:
    """Return the workers with a heartbeat within the last `seconds`."""
    return list(db.scalars(select(WorkerRow).where(WorkerRow.seen >= now(db) - seconds)))
