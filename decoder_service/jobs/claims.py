"""Statements by which workers take jobs, renew their leases and end them.

A held job has a token, an attempt and a lease. Every change names token and attempt, so that a
worker that comes late changes nothing of a job that another one took. Leases are by the clock of
the database.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update

from decoder_service.jobs.rows import COLUMNS, HELD, JobRow, JobState
from decoder_service.shell.database import CLAIM_LOCK, now
from decoder_service.shell.models import jobs, people, workers
from rappor_server.database import lock

_LEAST = 1e-6  # seconds from one start to the next


@dataclass(frozen=True, slots=True)
class Hold:
    """A worker's claim on a job, named in every change of the job."""

    job_id: str
    token: str
    attempt: int

    def where(self) -> ColumnElement[bool]:
        """The SQL condition that the job is still held under this claim."""
        return (
            (jobs.c.id == self.job_id)
            & (jobs.c.token == self.token)
            & (jobs.c.attempt == self.attempt)
        )


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker process. `seen`: time of its last sign of life."""

    id: str
    host: str
    pid: int
    slots: int
    started: float
    seen: float


def claim(connection: Connection, worker: str, token: str, lease: float, most: int) -> Hold | None:
    """Take the next job: of the owner with the fewest held jobs, who has waited longest.

    Not one whose specification is being computed already: its result will be there.

    Args:
        connection: a transaction that writes.
        worker: id of the worker.
        token: new, random.
        lease: seconds.
        most: held jobs of one owner.

    Returns:
        The hold, None where nothing is to be done.
    """
    lock(connection, CLAIM_LOCK)  # two claims at once might take two jobs of one specification
    job_id = connection.execute(_next(most)).scalar()
    if job_id is None:
        return None
    at = now(connection)
    latest = connection.execute(select(func.max(jobs.c.started))).scalar() or 0.0
    values: dict[str, Any] = {
        "state": JobState.RUNNING,
        "stage": "starting",
        "done": 0,
        "total": 0,
        "attempt": jobs.c.attempt + 1,
        "worker": worker,
        "token": token,
        "lease": at + lease,
        "started": max(at, latest + _LEAST),  # turns go by it, also where the clock was set back
    }
    queued = (jobs.c.id == job_id) & (jobs.c.state == JobState.QUEUED)
    if connection.execute(update(jobs).where(queued).values(values)).rowcount != 1:
        return None
    attempt = connection.execute(select(jobs.c.attempt).where(jobs.c.id == job_id)).scalar_one()
    return Hold(job_id, token, int(attempt))


def _next(most: int) -> Any:
    """The id of the job to take, locked against others."""
    other = jobs.alias()
    held = (
        select(func.count())
        .where(other.c.owner == jobs.c.owner, other.c.state.in_(HELD))
        .scalar_subquery()
    )
    served = (
        select(func.coalesce(func.max(other.c.started), 0.0))
        .where(other.c.owner == jobs.c.owner)
        .scalar_subquery()
    )
    twin = select(1).where(other.c.spec_digest == jobs.c.spec_digest, other.c.state.in_(HELD))
    return (
        select(jobs.c.id)
        .where(jobs.c.state == JobState.QUEUED, ~twin.exists(), held < most)
        .order_by(held, served, jobs.c.priority.desc(), jobs.c.created, jobs.c.id)
        .limit(1)
        .with_for_update(of=jobs, skip_locked=True)
    )


def load_held(connection: Connection, hold: Hold) -> JobRow | None:
    """The job of a claim, or None if the claim is over."""
    statement = select(*COLUMNS).join(people, people.c.id == jobs.c.owner).where(hold.where())
    row = connection.execute(statement).first()
    return None if row is None else JobRow(*row)


def states_of(connection: Connection, holds: Collection[Hold]) -> dict[Hold, JobState]:
    """The states of the jobs whose claims still hold."""
    columns = (jobs.c.id, jobs.c.token, jobs.c.attempt, jobs.c.state)
    statement = select(*columns).where(jobs.c.id.in_([hold.job_id for hold in holds]))
    found = {Hold(*row[:3]): JobState(row[3]) for row in connection.execute(statement) if row[1]}
    return {hold: found[hold] for hold in holds if hold in found}


def renew(connection: Connection, hold: Hold, lease: float) -> bool:
    """Extend the lease of a claim; return False if the claim is over, so that the work must
    stop."""
    held = hold.where() & jobs.c.state.in_(HELD)
    values = {"lease": now(connection) + lease}
    return connection.execute(update(jobs).where(held).values(values)).rowcount == 1


def name_metric(connection: Connection, hold: Hold, metric: str) -> None:
    """Store the metric of a job, which for files and uploads is known only when they are read."""
    values = {"metric": metric}
    connection.execute(update(jobs).where(hold.where()).values(values))


def save_progress(connection: Connection, hold: Hold, stage: str, done: int, total: int) -> bool:
    """Store a job's progress; return False if the claim is over."""
    values = {"stage": _storable(stage)[:100], "done": done, "total": total}
    held = hold.where() & (jobs.c.state == JobState.RUNNING)
    return connection.execute(update(jobs).where(held).values(values)).rowcount == 1


def end(
    connection: Connection, hold: Hold, state: JobState, reason: str = "", result: str | None = None
) -> bool:
    """End a job. A cancelled one was being cancelled; any other end needs that it was running.

    Returns False where the job is no more held, or in another state: nothing was changed.
    """
    before = JobState.CANCELLING if state is JobState.CANCELLED else JobState.RUNNING
    values: dict[str, Any] = {
        "state": state,
        "reason": _storable(reason)[:2000],
        "ended": now(connection),
        "token": None,
        "lease": None,
        "result_id": result,
    }
    held = hold.where() & (jobs.c.state == before)
    return connection.execute(update(jobs).where(held).values(values)).rowcount == 1


def _storable(text: str) -> str:
    """A text from elsewhere, such as a collector's, as every database takes it."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")


def give_back(connection: Connection, hold: Hold) -> bool:
    """Queue a job again without counting the attempt, since its worker shuts down."""
    values: dict[str, Any] = {
        "state": JobState.QUEUED,
        "stage": "",
        "attempt": jobs.c.attempt - 1,
        "token": None,
        "lease": None,
    }
    held = hold.where() & (jobs.c.state == JobState.RUNNING)
    return connection.execute(update(jobs).where(held).values(values)).rowcount == 1


def take_over(connection: Connection) -> int:
    """End or queue again the jobs whose lease is over, since their workers are dead. Return
    their number.

    Cancelling ones are cancelled, others are queued again or, with no attempt left, abandoned.
    """
    at = now(connection)
    lapsed = jobs.c.lease < at
    why = "its workers died while it ran; all attempts are used up"
    return _free(connection, lapsed, at, why, "cancelled; its worker was gone")


def try_again(connection: Connection, hold: Hold, reason: str) -> int:
    """Queue a job again, or abandon it, whose process was lost while its worker lives. Return 1,
    or 0 if not held.

    reason: of a job with no attempt left.
    """
    at = now(connection)
    why = f"{reason}; all attempts are used up"
    return _free(connection, hold.where(), at, why, "cancelled while it ran")


def _free(
    connection: Connection, which: ColumnElement[bool], at: float, abandoned: str, cancelled: str
) -> int:
    """Nobody holds these jobs any more. The reasons are those of jobs that end."""
    freed: dict[str, Any] = {"token": None, "lease": None}
    over = freed | {"ended": at}
    changed = 0
    for state, values in (
        (
            jobs.c.state == JobState.CANCELLING,
            over | {"state": JobState.CANCELLED, "reason": cancelled},
        ),
        (
            (jobs.c.state == JobState.RUNNING) & (jobs.c.attempt >= jobs.c.max_attempts),
            over | {"state": JobState.ABANDONED, "reason": abandoned},
        ),
        (jobs.c.state == JobState.RUNNING, freed | {"state": JobState.QUEUED, "stage": ""}),
    ):
        changed += connection.execute(update(jobs).where(state, which).values(values)).rowcount
    return changed


def see_worker(connection: Connection, row: WorkerRow) -> None:
    """Store a sign of life."""
    at = now(connection)
    known = update(workers).where(workers.c.id == row.id).values(seen=at)
    if not connection.execute(known).rowcount:
        values = {name: getattr(row, name) for name in row.__slots__}
        connection.execute(insert(workers).values(values | {"started": at, "seen": at}))


def forget_worker(connection: Connection, worker: str) -> None:
    """Delete a worker that stopped."""
    connection.execute(delete(workers).where(workers.c.id == worker))


def forget_silent_workers(connection: Connection, seconds: float) -> None:
    """Delete the workers that were not seen for so long."""
    connection.execute(delete(workers).where(workers.c.seen < now(connection) - seconds))


def live_workers(connection: Connection, seconds: float) -> list[WorkerRow]:
    """The workers that gave a sign of life within the last `seconds`."""
    columns = [workers.c[name] for name in WorkerRow.__slots__]
    recent = workers.c.seen >= now(connection) - seconds
    return [WorkerRow(*row) for row in connection.execute(select(*columns).where(recent))]
