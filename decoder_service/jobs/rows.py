"""Database rows of jobs, as people see and change them. Statements of workers are in
`jobs.claims`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update

from decoder_service.shell.models import jobs, people


class JobState(StrEnum):
    """The states of a job. The first three are live."""

    QUEUED = "queued"
    RUNNING = "running"
    CANCELLING = "cancelling"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"  # all attempts were used up by workers that died


LIVE = (JobState.QUEUED, JobState.RUNNING, JobState.CANCELLING)
HELD = (JobState.RUNNING, JobState.CANCELLING)
OVER = (JobState.DONE, JobState.FAILED, JobState.CANCELLED, JobState.ABANDONED)


@dataclass(frozen=True, slots=True)
class JobRow:
    """The database row of a job. Times are seconds since 1970.

    spec: JSON (`decoder_service.jobs.specs`).  stage, done, total: progress.  attempt: how often
    it was claimed.  worker, token, lease: of who holds it.  reason: why it ended, in words.
    checks: the result that it decodes again, to compare the bytes.
    """

    id: str
    operation: str
    metric: str
    spec: str
    spec_digest: str
    state: str
    max_attempts: int
    owner: str
    priority: int
    created: float
    stage: str = ""
    done: int = 0
    total: int = 0
    attempt: int = 0
    worker: str | None = None
    token: str | None = None
    lease: float | None = None
    reason: str = ""
    started: float | None = None  # of the last attempt
    ended: float | None = None
    result_id: str | None = None
    checks: str | None = None
    check_key: str = ""
    owner_name: str = ""


_OWN = tuple(name for name in JobRow.__slots__ if name != "owner_name")
COLUMNS = [*(jobs.c[name] for name in _OWN), people.c.name.label("owner_name")]


def save_job(connection: Connection, row: JobRow) -> None:
    """Insert a job."""
    connection.execute(insert(jobs).values({name: getattr(row, name) for name in _OWN}))


def load_jobs(
    connection: Connection, which: ColumnElement[bool], limit: int, offset: int = 0
) -> list[JobRow]:
    """Load jobs, newest first."""
    statement = (
        select(*COLUMNS)
        .join(people, people.c.id == jobs.c.owner)
        .where(which)
        .order_by(jobs.c.created.desc(), jobs.c.id)
        .limit(limit)
        .offset(offset)
    )
    return [JobRow(*row) for row in connection.execute(statement)]


def live_twin(connection: Connection, owner: str, digest: str, check_key: str) -> str | None:
    """The id of a live job of the same owner and specification."""
    statement = select(jobs.c.id).where(
        jobs.c.owner == owner,
        jobs.c.spec_digest == digest,
        jobs.c.check_key == check_key,
        jobs.c.state.in_(LIVE),
    )
    return connection.execute(statement).scalar()


def count_live(connection: Connection, owner: str) -> int:
    """Number of a person's jobs that wait or run."""
    statement = select(func.count()).where(jobs.c.owner == owner, jobs.c.state.in_(LIVE))
    return int(connection.execute(statement).scalar_one())


def count_states(connection: Connection) -> dict[str, int]:
    """Number of jobs in each state."""
    statement = select(jobs.c.state, func.count()).group_by(jobs.c.state)
    return {str(state): int(count) for state, count in connection.execute(statement)}


def cancel_job(connection: Connection, job_id: str, at: float) -> JobState | None:
    """Cancel a job: one that waits ends at once, one that runs becomes `cancelling`.

    Returns the state after it, None for a job that was over.
    """
    queued = update(jobs).where(jobs.c.id == job_id, jobs.c.state == JobState.QUEUED)
    ended = {"state": JobState.CANCELLED, "ended": at, "reason": "cancelled before it started"}
    if connection.execute(queued.values(ended)).rowcount:
        return JobState.CANCELLED
    running = update(jobs).where(jobs.c.id == job_id, jobs.c.state.in_(HELD))
    if connection.execute(running.values(state=JobState.CANCELLING)).rowcount:
        return JobState.CANCELLING
    return None


def delete_old_jobs(connection: Connection, before: float) -> int:
    """Delete jobs that ended before a time; how many."""
    over = (jobs.c.state.in_(OVER), jobs.c.ended < before)
    return connection.execute(delete(jobs).where(*over)).rowcount


def job_ages(connection: Connection, at: float) -> tuple[float, float]:
    """The longest time that a job waits, and that one runs, in seconds; 0 where there is none."""
    waits = select(func.min(jobs.c.created)).where(jobs.c.state == JobState.QUEUED)
    runs = select(func.min(jobs.c.started)).where(jobs.c.state.in_(HELD))
    first, started = connection.execute(waits).scalar(), connection.execute(runs).scalar()
    ages = [0.0 if one is None else max(0.0, at - float(one)) for one in (first, started)]
    return ages[0], ages[1]
