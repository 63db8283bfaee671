"""What workers do in the database, on both kinds: one holder, fair turns, honest states."""

import time
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select, update

from decoder_service.jobs import rules as claims
from decoder_service.jobs.rules import Hold
from decoder_service.shell.database import ServiceDatabase, save
from decoder_service.shell.models import JobRow, JobState, PersonRow
from rappor_server.errors import ConflictError


def row(number: int, owner: str, digest: str = "", **changes: object) -> JobRow:
    given: dict[str, object] = {
        "id": f"{number:016x}",
        "operation": "decode",
        "metric": "",
        "spec": "{}",
        "spec_digest": digest or f"{number:064x}",
        "state": JobState.QUEUED,
        "stage": "",
        "done": 0,
        "total": 0,
        "attempt": 0,
        "max_attempts": 2,
        "owner": owner,
        "worker": None,
        "token": None,
        "lease": None,
        "reason": "",
        "created": float(number),
        "started": None,
        "ended": None,
        "result_id": None,
    }
    return JobRow(**(given | changes))  # type: ignore[arg-type]


def fill(database: ServiceDatabase, rows: list[JobRow]) -> None:
    with database.writing() as db:
        for owner in sorted({one.owner for one in rows}):
            save(db, PersonRow(id=owner, name=f"person {owner}", created=0.0))
        for one in rows:
            save(db, one)


def take(database: ServiceDatabase, worker: str = "w", lease: float = 60.0) -> Hold | None:
    with database.writing() as db:
        return claims.claim(db, worker, f"{worker}-{time.monotonic_ns()}", lease)


def state_of(database: ServiceDatabase, job_id: str) -> JobState:
    with database.reading() as db:
        statement = select(JobRow.state).where(JobRow.id == job_id)
        return JobState(db.execute(statement).scalar_one())


OWNERS = ["a"] * 170 + ["b"] * 15 + ["c"] * 15  # one queued 170 jobs before the two others


def finish(database: ServiceDatabase, hold: Hold) -> None:
    with database.writing() as db:
        assert claims.end(db, hold, JobState.DONE)


@pytest.mark.long
def test_two_workers_do_200_jobs_once_each(database: ServiceDatabase) -> None:
    fill(database, [row(number, owner) for number, owner in enumerate(OWNERS)])
    done: list[str] = []

    def work(name: str) -> None:
        while (hold := take(database, name)) is not None:
            finish(database, hold)
            done.append(hold.job_id)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, ("w0", "w1")))  # raises what one of them raised
    assert len(set(done)) == len(done) == 200


def test_two_workers_serve_owners_in_turns(database: ServiceDatabase) -> None:
    """A third each, as long as all three wait: two owners do not wait for the third's 170 jobs.

    The workers take turns, too: one that waits long for the database holds its owner's turn.
    """
    fill(database, [row(number, owner) for number, owner in enumerate(OWNERS)])
    order: list[str] = []
    held: deque[Hold] = deque()
    for number in range(60):
        hold = take(database, f"w{number % 2}")
        assert hold is not None
        held.append(hold)
        order.append(OWNERS[int(hold.job_id, 16)])
        if len(held) == 2:
            finish(database, held.popleft())
    assert Counter(order[:45]) == {"a": 15, "b": 15, "c": 15}


def test_turns_go_on_after_clock_setbacks(database: ServiceDatabase) -> None:
    fill(database, [row(number, "ab"[number % 2]) for number in range(40)])
    first = take(database)
    assert first
    with database.writing() as db:
        db.execute(update(JobRow).where(first.where()).values(started=time.time() + 3_600))
        assert claims.end(db, first, JobState.DONE)
    order = []
    for _ in range(20):
        hold = take(database)
        assert hold
        with database.writing() as db:
            assert claims.end(db, hold, JobState.DONE)
        order.append("ab"[int(hold.job_id, 16) % 2])
    assert Counter(order) == {"a": 10, "b": 10}


def test_a_late_worker_changes_nothing(database: ServiceDatabase) -> None:
    fill(database, [row(1, "a")])
    late = take(database, lease=-1.0)
    assert late
    with database.writing() as db:
        assert claims.take_over(db) == 1
    fresh = take(database)
    assert fresh
    assert (fresh.job_id, fresh.attempt) == (late.job_id, 2)
    with database.writing() as db:
        assert not claims.renew(db, late, 60)
        assert not claims.save_progress(db, late, "stage", 1, 2)
        assert not claims.end(db, late, JobState.DONE)
        assert not claims.give_back(db, late)
        assert claims.states_of(db, [late, fresh]) == {fresh: JobState.RUNNING}
        assert claims.end(db, fresh, JobState.DONE)


def test_attempts_are_used_up(database: ServiceDatabase) -> None:
    fill(database, [row(1, "a")])
    for expected in (JobState.QUEUED, JobState.ABANDONED):
        assert take(database, lease=-1.0)
        with database.writing() as db:
            claims.take_over(db)
        assert state_of(database, f"{1:016x}") is expected
    assert take(database) is None


def test_cancelled_jobs_of_dead_workers_are_cancelled(database: ServiceDatabase) -> None:
    fill(database, [row(1, "a"), row(2, "a")])
    hold = take(database, lease=-1.0)
    assert hold
    with database.writing() as db:
        assert claims.cancel_job(db, hold.job_id, 1.0) is JobState.CANCELLING
        assert claims.cancel_job(db, f"{2:016x}", 1.0) is JobState.CANCELLED
        assert not claims.end(db, hold, JobState.DONE)  # it was asked to stop
        claims.take_over(db)
    assert state_of(database, hold.job_id) is JobState.CANCELLED
    with database.writing() as db:
        assert claims.cancel_job(db, hold.job_id, 1.0) is None


def test_specifications_are_computed_by_one_job(database: ServiceDatabase) -> None:
    fill(database, [row(1, "a", "same"), row(2, "b", "same"), row(3, "c")])
    first, second = take(database), take(database)
    assert first
    assert second
    assert (first.job_id, second.job_id) == (f"{1:016x}", f"{3:016x}")
    assert take(database) is None
    with database.writing() as db:
        assert claims.end(db, first, JobState.DONE)
    third = take(database)
    assert third
    assert third.job_id == f"{2:016x}"


def test_owners_have_one_live_job_a_specification(database: ServiceDatabase) -> None:
    fill(database, [row(1, "a", "same")])
    with pytest.raises(ConflictError), database.writing() as db:
        save(db, row(2, "a", "same"))
    with database.writing() as db:
        db.execute(update(JobRow).values(state=JobState.DONE))
        save(db, row(2, "a", "same"))
