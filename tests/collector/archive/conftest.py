"""Stores of several kinds."""

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.collector.conftest import (  # noqa: F401 - fixtures of a collector
    databases,
    new_postgresql,
    postgresql,
    postgresql_server,
    sqlite_url,
)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database; a server of PostgreSQL takes two seconds of processor to start."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/collector.sqlite"
    make: Callable[[], str] = request.getfixturevalue("new_postgresql")
    return make()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """moto's own S3 server over loopback; yields its URL."""
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server")
    running = server.ThreadedMotoServer(port=0, ip_address="127.0.0.1", verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture
def s3_archive(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty archive in a bucket of its own."""
    import s3fs

    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": s3_server,
        "FSSPEC_S3_ENDPOINT_URL": s3_server,
    }.items():
        monkeypatch.setenv(name, value)
    assert os.environ["AWS_ENDPOINT_URL"] == s3_server
    bucket = f"b{uuid.uuid4().hex[:12]}"
    s3fs.S3FileSystem.clear_instance_cache()
    s3fs.S3FileSystem().mkdir(bucket)
    return f"s3://{bucket}/archive"
