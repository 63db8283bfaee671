"""The service's database: commits that last, connections that live, errors with a way out."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url, text

from decoder_service.people.access import COMMAND_LINE
from decoder_service.people.permissions import Role
from decoder_service.shell.database import ServiceDatabase, make_engine
from decoder_service.shell.errors import SchemaError, StorageError
from decoder_service.shell.service import DecoderService, make_service
from decoder_service.shell.settings import ServiceSettings
from rappor_server.schema import migrate, prepare
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
    assert {row.name for row in service.access.list_keys(COMMAND_LINE)} == {"ann", "cyd"}
    with service.database.read() as connection:  # a session that somebody turned off, say a pooler
        connection.execute(text("SET SESSION synchronous_commit = off"))
    with pytest.raises(StorageError, match="synchronous_commit = off"):
        add_key(service, "dan")
    service.close()


def test_closing_waits_for_chores_in_transactions(
    new_postgresql: Callable[[], str], postgresql: str
) -> None:
    """A connection that came back later would stay open: nobody holds its pool any more."""
    url = new_postgresql()
    database = ServiceDatabase(make_engine(url))
    inside = threading.Event()

    def chore() -> None:
        with database.read() as connection:
            inside.set()
            connection.execute(text("SELECT pg_sleep(0.5)"))

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


def test_a_chore_that_begins_while_it_closes_leaves_nothing_open(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets no connection of the pool that is being disposed of."""
    database = ServiceDatabase(make_engine(database_url))
    prepare(database)
    pool, dispose = database.engine.pool, database.engine.dispose
    inside, disposed = threading.Event(), threading.Event()

    def chore() -> None:
        with database.read():
            inside.set()
            disposed.wait(10)

    thread = threading.Thread(target=chore)

    def slowly() -> None:
        if thread.ident is None:
            thread.start()
            inside.wait(0.2)  # it does not come: the chore waits for the lock
        dispose()
        disposed.set()

    monkeypatch.setattr(database.engine, "dispose", slowly)
    database.close()
    thread.join()
    assert pool.checkedin() == 0  # type: ignore[attr-defined]


def test_connections_the_server_ended_are_dropped(
    new_postgresql: Callable[[], str], postgresql: str
) -> None:
    """Without an error for whoever comes next, and without a question before every use."""
    service = make_service(ServiceSettings(database=new_postgresql()))
    prepare(service.database)
    with service.database.read() as connection:
        first = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
    with psycopg.connect(postgresql, autocommit=True) as server:
        assert server.execute("SELECT pg_terminate_backend(%s, 5000)", [first]).fetchone() == (
            True,
        )
    add_key(service, "ann")
    with service.database.read() as connection:
        assert connection.execute(text("SELECT pg_backend_pid()")).scalar_one() != first
    service.close()


@pytest.mark.parametrize(
    ("content", "mode", "way_out"),
    [
        (b"not a database" * 400, 0o600, "name the file that rappor decoder migrate made, or"),
        (None, 0o600, "check the path, and that it is a file"),
    ],
)
def test_an_error_of_sqlite_says_a_way_out(
    tmp_path: Path, content: bytes | None, mode: int, way_out: str
) -> None:
    path = tmp_path / "decoder.sqlite"
    path.mkdir() if content is None else path.write_bytes(content)
    path.chmod(mode | 0o700 * path.is_dir())
    database = ServiceDatabase(make_engine(f"sqlite:///{path}"))
    with pytest.raises(StorageError, match=way_out) as caught:
        prepare(database)
    assert str(path) in str(caught.value)  # of several databases, which
    database.close()


def test_locked_databases_are_refused_with_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "decoder.sqlite"
    database = ServiceDatabase(make_engine(f"sqlite:///{path}", timeout=0.05))
    prepare(database)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match="another process holds it; try again"):
            prepare(database)
    database.close()


def test_connections_that_are_all_in_use_are_named(new_postgresql: Callable[[], str]) -> None:
    database = ServiceDatabase(make_engine(new_postgresql(), pool_size=1, timeout=0.2))
    with (
        database.read(),
        pytest.raises(StorageError, match="all its connections are in use"),
        database.read(),
    ):
        pass
    database.close()


def test_foreign_databases_are_refused_with_a_remedy(database_url: str) -> None:
    """Neither started on nor migrated, whether its tables have revisions or none."""
    database = ServiceDatabase(make_engine(database_url))
    with database.change() as connection:
        connection.execute(text("CREATE TABLE somebody_elses (id INTEGER)"))
    for act in (prepare, migrate):
        with pytest.raises(SchemaError, match="the decoder service's; name an empty one"):
            act(database)
    with database.change() as connection:
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('9999')"))
    for act in (prepare, migrate):
        with pytest.raises(SchemaError, match=r"collector's, .* name a database of the service"):
            act(database)
    database.close()


def test_a_chore_that_outlasts_closing_leaves_nothing_open(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rappor_server.database._CLOSE_SECONDS", 0.01)
    database = ServiceDatabase(make_engine(database_url))
    prepare(database)
    pool = database.engine.pool
    with database.read() as connection:
        database.close()
        assert connection.execute(text("SELECT 1")).scalar_one() == 1
    assert pool.checkedin() == 0  # type: ignore[attr-defined]
    assert database.engine.pool is not pool
