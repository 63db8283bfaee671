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
from rappor_server.errors import SchemaError
from rappor_server.schema import check
from tests.decoder_service.live_collector import MONDAY, LiveCollector, live_collector
from tests.decoder_service.support import Running, settings_of
from tests.http_server import serving_with

ID = "0" * 16
SHA = "0" * 64
SPEC = {"kind": "decode", "source": {"aggregates": [SHA]}}
RELEASE = {"name": "a", "policy": "owner = 'a'", "sources": [{"result": ID}]}
SCHEDULE = {"name": "a", "metric": "b", "every": "day"}


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCollector]:
    with live_collector(tmp_path_factory.mktemp("collector"), {MONDAY: {"word-0": 50}}) as one:
        yield one


MISSING = [
    ("GET", f"/v1/jobs/{ID}", "GET /v1/jobs"),
    ("POST", f"/v1/jobs/{ID}/cancel", "GET /v1/jobs"),
    ("GET", f"/v1/results/{ID}", "GET /v1/results"),
    ("GET", f"/v1/results/{ID}/files/a.csv", "GET /v1/results"),
    ("POST", f"/v1/results/{ID}/check", "GET /v1/results"),
    ("DELETE", f"/v1/results/{ID}", "GET /v1/results"),
    ("GET", f"/v1/lists/{ID}", "GET /v1/lists"),
    ("DELETE", f"/v1/lists/{ID}", "GET /v1/lists"),
    ("GET", f"/v1/releases/{ID}", "GET /v1/releases"),
    ("GET", f"/v1/releases/{ID}/difference", "GET /v1/releases"),
    ("GET", f"/v1/schedules/{ID}", "GET /v1/schedules"),
    ("DELETE", f"/v1/schedules/{ID}", "GET /v1/schedules"),
    ("GET", f"/v1/schedules/{ID}/alarms", "GET /v1/schedules"),
    ("POST", f"/v1/keys/{ID}/revoke", "GET /v1/keys"),
    ("GET", "/v1/nothing", "GET /openapi.json"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "way_out"), MISSING)
def test_missing_things_are_refused_with_directions(
    served: Running, method: str, path: str, way_out: str
) -> None:
    with served.client("root") as root:
        answer = root.request(method, path)
    assert answer.status_code in (404, 405), answer.text
    if answer.status_code == 404:
        assert way_out in answer.json()["detail"]
    else:
        assert "this path has" in answer.json()["detail"]


def test_insufficient_keys_are_told_what_would_do(served: Running) -> None:
    with served.client(None) as nobody, served.client("vic") as vic:
        said = nobody.get("/v1/jobs").json()["detail"]
        assert "Authorization: Bearer KEY" in said
        assert "/sign-in" in said
        wrong = nobody.get("/v1/jobs", headers={"Authorization": "Bearer wrong"})
        assert "rappor decoder keys create" in wrong.json()["detail"]
        basic = nobody.get("/v1/jobs", headers={"Authorization": "Basic YTpi"})
        assert "Authorization: Bearer KEY" in basic.json()["detail"]
        for path, body in (("jobs", SPEC), ("releases", RELEASE), ("schedules", SCHEDULE)):
            answer = vic.post(f"/v1/{path}", json=body)
            assert answer.status_code == 403
            assert "this needs analyst or admin: an admin gives it" in answer.json()["detail"]
        made = nobody.post("/v1/session", json={"key": served.keys["ana"]})
        cookies = dict(made.cookies)
    with served.client(None) as other:
        other.cookies.update(cookies)
        stolen = other.post("/v1/jobs", json=SPEC, headers={"Origin": "https://evil.example"})
    assert stolen.status_code == 403
    assert served.url in stolen.json()["detail"]
    assert "public_url" in stolen.json()["detail"]


def test_the_collector_names_the_way_out_too(collector: LiveCollector) -> None:
    for path, key, words in (
        ("/v1/metrics", "", "Authorization: Bearer KEY"),
        ("/v1/metrics", "wrong", "rappor keys create --scope aggregate"),
        ("/v1/keys", collector.key, "this needs admin: an operator makes one with rappor keys"),
        ("/v1/metrics/none/aggregate", collector.key, "GET /v1/metrics"),
        ("/v1/none", collector.key, "there is no GET /v1/none; GET /openapi.json"),
    ):
        with pytest.raises(RemoteError) as refused:
            ask_json(collector.url, path, key=key)
        assert words in str(refused.value), path


ALLOWED = [
    ("/v1/jobs", {**SPEC, "kind": "nothing"}, ("kind", "'decode'", "'density'", "'discover'")),
    ("/v1/jobs", {**SPEC, "options": {"method": "magic"}}, ("method", "'cavity'", "'lasso'")),
    ("/v1/jobs", {**SPEC, "options": {"correction": "no"}}, ("correction", "'bh'", "'fdr'")),
    ("/v1/jobs", {**SPEC, "kind": "series", "each": "year"}, ("each", "'day'", "'week'")),
    ("/v1/jobs", {**SPEC, "kind": "density", "map": {"split": "no"}}, ("split", "'week'")),
    ("/v1/jobs", {**SPEC, "candidates": {"numbers": 3}}, ("numbers", "a list")),
    ("/v1/schedules", {**SCHEDULE, "every": "hour"}, ("every", "'day', 'week' or 'month'")),
    ("/v1/schedules", {**SCHEDULE, "family": "all"}, ("family", "'window' or 'series'")),
    ("/v1/schedules", {**SCHEDULE, "first_day": "soon"}, ("first_day", "a day such as")),
    ("/v1/keys", {"name": "a", "role": "boss"}, ("role", "'viewer', 'analyst' or 'admin'")),
    ("/v1/releases", {**RELEASE, "sources": []}, ("sources", "a list of 1 or more")),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "words"), ALLOWED)
def test_wrong_values_are_refused_with_allowed_ones(
    served: Running, path: str, body: dict[str, object], words: tuple[str, ...]
) -> None:
    with served.client("root") as root:
        answer = root.post(path, json=body)
    assert answer.status_code == 422
    for word in words:
        assert word in answer.json()["detail"], answer.text
    with served.client("ana") as ana:
        state = ana.get("/v1/jobs", params={"state": "gone"})
    assert "'queued', 'running', 'cancelling'" in state.json()["detail"]


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


def test_schemas_are_named_as_collectors_or_services() -> None:
    from collector.store.database import COLLECTOR
    from decoder_service.shell.database import SERVICE

    for program, whose in ((COLLECTOR, "the collector's"), (SERVICE, "the decoder service's")):
        for old, words in (("0001", "is at schema"), ("0001_decoder", "is at schema"), ("9", "9,")):
            with pytest.raises(SchemaError) as refused:
                check(old, program)
            assert whose in str(refused.value), old
            assert words in str(refused.value)
