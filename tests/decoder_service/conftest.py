"""Databases of both kinds, for the tests of this folder."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from decoder_service.shell.database import ServiceDatabase
from decoder_service.shell.settings import ServiceSettings
from disclosure.release import make_keys
from rappor_server.database import make_engine
from rappor_server.schema import prepare
from tests.collector.conftest import (
    database_url,
    databases,
    new_postgresql,
    postgresql,
    postgresql_server,
)
from tests.decoder_service.live_collector import MONDAY, LiveCollector, live_collector
from tests.decoder_service.support import ALARM_URLS, Running, as_listed, running, set_metrics

__all__ = ["database_url", "databases", "new_postgresql", "postgresql", "postgresql_server"]


@pytest.fixture
def database(database_url: str) -> Iterator[ServiceDatabase]:
    made = ServiceDatabase(make_engine(database_url, pool_size=8))
    prepare(made)
    yield made
    made.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service on SQLite without a worker, for all tests of a module."""
    folder = tmp_path_factory.mktemp("service")
    with running(f"sqlite:///{folder}/decoder.sqlite", alarm_urls=ALARM_URLS) as one:
        yield one


@pytest.fixture
def settings(tmp_path: Path) -> ServiceSettings:
    """Settings on an empty SQLite database."""
    return ServiceSettings(database=f"sqlite:///{tmp_path}/decoder.sqlite")


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCollector]:
    """A collector that serves two days."""
    days = {MONDAY: {"word-0": 600}, MONDAY + timedelta(days=1): {"word-0": 300}}
    with live_collector(tmp_path_factory.mktemp("collector"), days) as one:
        yield one


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Files of the private and the public key that sign releases."""
    private, public, _ = make_keys(tmp_path_factory.mktemp("keys") / "one")
    return private, public


@pytest.fixture(scope="module")
def collecting(collector, tmp_path_factory) -> Iterator[Running]:
    """A service with that collector, without a worker, for all tests of a module."""
    settings = {"tick_seconds": 0, **collector.settings}
    with running(f"sqlite:///{tmp_path_factory.mktemp('d')}/d.sqlite", **settings) as one:
        yield one


@pytest.fixture
def scheduling(collector: LiveCollector, tmp_path: Path) -> Iterator[Running]:
    """A service with that collector, without a worker."""
    settings = {"tick_seconds": 0, **collector.settings}
    with running(f"sqlite:///{tmp_path}/d.sqlite", **settings) as one:
        yield one


@pytest.fixture
def idle(collecting: Running) -> Iterator[Running]:
    """The same, for one test: it finds the collector's metrics as they are, and no job."""
    set_metrics(collecting, as_listed(collecting))
    yield collecting
    with collecting.client("root") as root:
        for one in root.get("/v1/jobs?state=queued").json()["jobs"]:
            root.post(f"/v1/jobs/{one['id']}/cancel")
