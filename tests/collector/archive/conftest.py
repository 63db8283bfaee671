"""Stores of several kinds."""

import uuid
from collections.abc import Iterator

import pytest


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
    """The URL of an empty archive in a separate bucket."""
    import s3fs

    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": s3_server,
        "FSSPEC_S3_ENDPOINT_URL": s3_server,
    }.items():
        monkeypatch.setenv(name, value)
    bucket = f"b{uuid.uuid4().hex[:12]}"
    s3fs.S3FileSystem.clear_instance_cache()
    s3fs.S3FileSystem().mkdir(bucket)
    return f"s3://{bucket}/archive"
