"""The service's database: commits that last, connections that live, errors with a way out."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime

import psycopg
import pytest
from sqlalchemy import delete, make_url, text

from decoder_service.people.access import COMMAND_LINE
from decoder_service.people.permissions import Role
from decoder_service.shell.database import ServiceDatabase, save, utc_now
from decoder_service.shell.models import IdentityRow, KeyRow, PersonRow
from decoder_service.shell.service import DecoderService, make_service
from decoder_service.shell.settings import ServiceSettings
from rappor_server.database import make_engine
from rappor_server.errors import ConflictError, NotFoundError, StorageError
from rappor_server.schema import prepare
from tests.collector.support import set_fsync
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("databases_as_served")


def add_key(service: DecoderService, name: str) -> None:
    service.access.create_key(COMMAND_LINE, name, Role.VIEWER)


def test_servers_without_durable_commits_are_refused(
    new_postgresql: Callable[[], str], postgresql: str
) -> None:
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


def test_closing_waits_for_chores_in_transactions(
    new_postgresql: Callable[[], str], postgresql: str
) -> None:
    """A connection that came back later would stay open: nobody holds its pool any more."""
    url = new_postgresql()
    database = ServiceDatabase(make_engine(url))
    inside = threading.Event()

    def chore() -> None:
        with database.reading() as db:
            inside.set()
            db.execute(text("SELECT pg_sleep(0.5)"))

    thread = threading.Thread(target=chore)
    thread.start()
    inside.wait(10)
    database.close()
    thread.join()
    mine = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
    with psycopg.connect(postgresql, autocommit=True) as server:
        until(  # the server notes the end of a session a moment later
            lambda: server.execute(mine, [make_url(url).database]).fetchone() == (0,)
        )


def test_connections_the_server_ended_are_dropped(
    new_postgresql: Callable[[], str], postgresql: str
) -> None:
    """Without an error for whoever comes next, and without a question before every use."""
    service = make_service(ServiceSettings(database=new_postgresql()))
    prepare(service.database)
    with service.database.reading() as db:
        first = db.execute(text("SELECT pg_backend_pid()")).scalar_one()
    with psycopg.connect(postgresql, autocommit=True) as server:
        assert server.execute("SELECT pg_terminate_backend(%s, 5000)", [first]).fetchone() == (
            True,
        )
    add_key(service, "ann")
    with service.database.reading() as db:
        assert db.execute(text("SELECT pg_backend_pid()")).scalar_one() != first
    service.close()


def test_sessions_of_a_demoted_server_are_replaced(new_postgresql: Callable[[], str]) -> None:
    """The old primary's sessions stay open and take no write; new ones reach one that does."""
    service = make_service(ServiceSettings(database=new_postgresql()))
    prepare(service.database)
    add_key(service, "ann")
    with service.database.reading() as db:
        first = db.execute(text("SELECT pg_backend_pid()")).scalar_one()
        db.execute(text("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"))
    with pytest.raises(StorageError, match="read-only"):
        add_key(service, "bob")
    add_key(service, "bob")
    with service.database.reading() as db:
        assert db.execute(text("SELECT pg_backend_pid()")).scalar_one() != first
    service.close()


def test_rows_that_another_process_deletes_meanwhile_are_conflicts(
    new_postgresql: Callable[[], str],
) -> None:
    """As a schedule that its owner deletes while a tick stores its state."""
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
def test_of_two_admins_at_once_one_ends_a_key_or_a_person(
    new_postgresql: Callable[[], str], act: str
) -> None:
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
