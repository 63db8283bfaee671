"""The service's database: commits that last, and what workers do in it: one holder, fair turns."""

import threading
import time
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime

import psycopg
import pytest
from sqlalchemy import delete, select, text, update

from decoder_service.jobs import rules as claims
from decoder_service.jobs.rules import Hold
from decoder_service.people.access import COMMAND_LINE
from decoder_service.people.permissions import Role
from decoder_service.shell.database import ServiceDatabase, save, utc_now
from decoder_service.shell.models import IdentityRow, JobRow, JobState, KeyRow, PersonRow
from decoder_service.shell.service import DecoderService, make_service
from decoder_service.shell.settings import ServiceSettings
from rappor_server.database import make_engine
from rappor_server.errors import ConflictError, NotFoundError, StorageError
from rappor_server.schema import prepare
from tests.collector.support import set_fsync

pytestmark = pytest.mark.usefixtures("databases_as_served")


def add_key(service: DecoderService, name: str) -> None:
    service.access.create_key(COMMAND_LINE, name, Role.VIEWER)


def test_servers_without_durable_commits_are_refused(new_postgresql, postgresql) -> None:
    """fsync goes off after the start: no key is made and none starts; then on again."""
    service = make_service(ServiceSettings(database=new_postgresql()))
    prepare(service.database)
    add_key(service, "ann")
    with psycopg.connect(postgresql, autocommit=True) as server:
        try:
            set_fsync(service.database, server, "off")
            for act in (lambda: add_key(service, "bob"), lambda: prepare(service.database)):
                with pytest.raises(StorageError, match=r"fsync = off .* set fsync = on"):
                    act()
            with pytest.raises(StorageError, match="fsync = off"):
                service.check_ready()
        finally:
            set_fsync(service.database, server, "on")
    add_key(service, "cyd")
    assert {row.person.name for row in service.access.list_keys(COMMAND_LINE)} == {"ann", "cyd"}
    with service.database.reading() as db:  # a session that somebody turned off, say a pooler
        db.execute(text("SET SESSION synchronous_commit = off"))
    with service.database.writing() as db:
        assert db.execute(text("SHOW synchronous_commit")).scalar_one() == "on"
    service.close()


def test_rows_that_another_process_deletes_meanwhile_are_conflicts(new_postgresql) -> None:
    """A schedule that its owner deletes while a tick stores its state."""
    database = ServiceDatabase(make_engine(new_postgresql()))
    prepare(database)
    with database.writing() as db:
        save(db, PersonRow(id="1" * 16, name="ann", created=0.0))

    def rename() -> None:
        with database.writing() as db:
            row = db.get_one(PersonRow, "1" * 16)
            with database.writing() as other:
                other.execute(delete(PersonRow))
            row.name = "bob"

    with pytest.raises(ConflictError, match="another process was first"):
        rename()
    with database.reading() as db:
        assert db.get(PersonRow, "1" * 16) is None
    database.close()


@pytest.mark.parametrize("act", ["revoke", "keep-out"])
def test_of_two_admins_at_once_one_ends_a_key_or_a_person(new_postgresql, act) -> None:
    """Each has read the row before the other changes it, unless one waits for the other."""
    service = make_service(ServiceSettings(database=new_postgresql()))
    prepare(service.database)
    access = service.access
    key = access.create_key(COMMAND_LINE, "ann", Role.VIEWER).key_id
    with service.database.writing() as db:
        person = db.get_one(KeyRow, key).person_id
        save(db, IdentityRow(issuer="i", subject="s", person_id=person, role="viewer",
                             created=0.0, seen=0.0))  # fmt: skip
    both = threading.Barrier(2)

    def clock() -> datetime:  # read by who has read the row
        with suppress(threading.BrokenBarrierError):
            both.wait(1)
        return utc_now()

    object.__setattr__(access, "clock", clock)

    def end(_number: int) -> bool:
        try:
            if act == "revoke":
                access.revoke_key(COMMAND_LINE, key)
            else:
                access.keep_out(COMMAND_LINE, person, out=True)
        except NotFoundError:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(end, range(2))) == [False, True]
    done = [row.act for row in access.read_audit(COMMAND_LINE)]
    assert len(done) == 2  # with the making of the key
    service.close()


def row(number: int, owner: str, digest: str = "", **changes: object) -> JobRow:
    texts = dict.fromkeys(("metric", "stage", "reason"), "")
    missing = dict.fromkeys(("worker", "token", "lease", "started", "ended", "result_id"))
    asked = {"operation": "decode", "spec": "{}", "spec_digest": digest or f"{number:064x}"}
    progress = {"done": 0, "total": 0, "attempt": 0, "max_attempts": 2}
    own = {"id": f"{number:016x}", "owner": owner, "created": float(number)}
    given = own | asked | {"state": JobState.QUEUED} | progress | texts | missing
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


def test_two_workers_serve_owners_in_turns(database: ServiceDatabase) -> None:
    """A third each: two owners do not wait for the third's 170 jobs. Workers take turns, too."""
    fill(database, [row(number, owner) for number, owner in enumerate(OWNERS)])
    order: list[str] = []
    held: deque[Hold] = deque()
    for number in range(60):
        hold = take(database, f"w{number % 2}")
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
