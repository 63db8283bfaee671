"""Every refusal names the way out: what to send, whom to ask, or where to look."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from decoder.errors import RemoteError
from decoder.sources.collector_client import ask_json, fetch_aggregate
from decoder_service.shell.errors import SettingsError
from decoder_service.shell.server import running_service
from rappor_cli.main import main
from tests.decoder_service.live_collector import MONDAY, LiveCollector, live_collector
from tests.decoder_service.support import Running, settings_of
from tests.http_server import serving_with


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCollector]:
    with live_collector(tmp_path_factory.mktemp("collector"), {MONDAY: {"word-0": 50}}) as one:
        yield one


@contextmanager
def stranger(status: int, body: bytes, kind: str = "text/html") -> Iterator[str]:
    """A server that is no collector."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with serving_with(Answers) as url:
        yield url


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b"<html>Not Found</html>"),
        (200, b"<html>Welcome</html>"),
        (502, b"\x1b[31mBad Gateway"),
        (401, b"[]"),
        (403, b'"no"'),
        (500, b"\xff" * 2_000_000),
        (200, b"[" * 100_000),
        (200, b"{}"),
    ],
)
def test_another_server_is_said_to_be_no_collector(
    status: int, body: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with stranger(status, body) as url:
        with pytest.raises(RemoteError, match=r"is not a collector: .*; check the address"):
            ask_json(url, "/v1/metrics", "metrics")
        words = tmp_path / "words.txt"
        words.write_text("a\n")
        asked = ["decode", "--collector", url, "--metric", "m", "--candidates", str(words)]
        assert main([*asked, "-o", str(tmp_path / "out")]) == 1
    told = capsys.readouterr().err
    assert f"what answers at {url}" in told
    assert "check the address" in told
    assert told.count("\n") == 1
    assert "\x1b" not in told


def test_absent_and_wrong_collectors_are_told(
    served: Running,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(RemoteError, match=r"no collector answers at .*; check the address, or st"):
        fetch_aggregate(f"http://127.0.0.1:{port}", "m")
    with pytest.raises(RemoteError, match="unknown to this decoder service"):
        ask_json(served.url, "/v1/jobs", "metrics", key="rk_aggregate_0_0")
    with pytest.raises(RemoteError, match=r"is not a collector: there is no GET"):
        fetch_aggregate(served.url, "m", key=served.keys["ana"])


def test_taken_ports_are_told_with_a_remedy(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = settings_of(f"sqlite:///{tmp_path}/d.sqlite", port=taken.getsockname()[1])
        with (
            pytest.raises(SettingsError, match=r"in use: .* another port with --port \(0 takes"),
            running_service(settings),
        ):
            pass
    settings = settings_of(f"sqlite:///{tmp_path}/d.sqlite", host="192.0.2.1")
    with (
        pytest.raises(SettingsError, match=r"no address of this machine; --host takes 127\.0\.0"),
        running_service(settings),
    ):
        pass
