"""Statements on jobs, as people see and change them. Statements of workers are in
`jobs.claims`."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.orm import Session

from decoder_service.shell.database import changed
from decoder_service.shell.models import JobRow


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


def load_jobs(db: Session, which: ColumnElement[bool], limit: int, offset: int = 0) -> list[JobRow]:
    """Load jobs, newest first."""
    newest = select(JobRow).where(which).order_by(JobRow.created.desc(), JobRow.id)
    return list(db.scalars(newest.limit(limit).offset(offset)))


def live_twin(db: Session, row: JobRow) -> JobRow | None:
    """A live job of the same owner and specification."""
    statement = select(JobRow).where(
        JobRow.owner == row.owner,
        JobRow.spec_digest == row.spec_digest,
        JobRow.check_key == row.check_key,
        JobRow.state.in_(LIVE),
    )
    return db.scalar(statement)


def count_live(db: Session, owner: str) -> int:
    """Number of a person's jobs that wait or run."""
    statement = select(func.count()).where(JobRow.owner == owner, JobRow.state.in_(LIVE))
    return int(db.execute(statement).scalar_one())


def count_states(db: Session) -> dict[str, int]:
    """Number of jobs in each state."""
    statement = select(JobRow.state, func.count()).group_by(JobRow.state)
    return {str(state): int(count) for state, count in db.execute(statement)}


def cancel_job(db: Session, job_id: str, at: float) -> JobState | None:
    """Cancel a job: one that waits ends at once, one that runs becomes `cancelling`.

    Returns the state after it, None for a job that was over.
    """
    queued = update(JobRow).where(JobRow.id == job_id, JobRow.state == JobState.QUEUED)
    ended = {"state": JobState.CANCELLED, "ended": at, "reason": "cancelled before it started"}
    if changed(db, queued.values(ended)):
        return JobState.CANCELLED
    running = update(JobRow).where(JobRow.id == job_id, JobRow.state.in_(HELD))
    if changed(db, running.values(state=JobState.CANCELLING)):
        return JobState.CANCELLING
    return None


def delete_old_jobs(db: Session, before: float) -> int:
    """Delete jobs that ended before a time; how many."""
    over = (JobRow.state.in_(OVER), JobRow.ended < before)
    return changed(db, delete(JobRow).where(*over))


def job_ages(db: Session, at: float) -> tuple[float, float]:
    """The longest time that a job waits, and that one runs, in seconds; 0 where there is none."""
    first = db.scalar(select(func.min(JobRow.created)).where(JobRow.state == JobState.QUEUED))
    started = db.scalar(select(func.min(JobRow.started)).where(JobRow.state.in_(HELD)))
    ages = [0.0 if one is None else max(0.0, at - one) for one in (first, started)]
    return ages[0], ages[1]
