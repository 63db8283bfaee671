"""The relays of docker/, run for real: what of a device's request reaches the collector."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from client_sdk import Client, Delivery, Relay
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.ohttp.encapsulation import RESPONSE_TYPE, KeyConfig, encode_keys
from tests.collector.support import Clock, ServerMaker, make_metric
from tests.collector.test_docker_and_proxy import DOCKER, await_port
from tests.free_ports import free_port
from tests.http_server import serving_with
from tests.relay_support import OUTER, Behind, new_keys, opened

METRIC = make_metric(min_reports=1, max_reports_per_period=10_000)
IDENTIFYING = {
    "cookie": "s=1",
    "forwarded": "for=192.0.2.1",
    "user-agent": "a phone",
    "accept-language": "pt",
    "x-forwarded-for": "192.0.2.1",
    "x-real-ip": "192.0.2.1",
    "via": "1.1 home",
    "x-own": "1",
}
NGINX = [
    ("server telemetry.example.org:443;", "server 127.0.0.1:{upstream};"),
    ("https://collector", "http://collector"),
    ("listen 8445 ssl;", "listen 127.0.0.1:{port};"),
    ("/tmp/nginx-relay", "{folder}/nginx"),
    ("rate=20r/s", "rate=2000r/s"),
]
CADDY = [
    ("{\n\tservers {", "{{\n\tadmin off\n\tservers {{"),
    ("relay.example.net {", "http://127.0.0.1:{port} {{"),
    ("https://telemetry.example.org", "http://127.0.0.1:{upstream}"),
]


def program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if found is None:
        pytest.skip(f"{name} is not installed, so its relay in docker/ was not run")
    if name == "caddy":
        version = subprocess.run([found, "version"], capture_output=True, text=True).stdout
        if version.lstrip("v").startswith("2.6."):
            pytest.skip("Caddy 2.6 cannot delete all headers, so its relay in docker/ was not run")
    return found


@contextmanager
def running_relay(
    kind: str, folder: Path, upstream: int, port: int = 0, *, kill: bool = False, origin: str = ""
) -> Iterator[str]:
    """A relay of docker/ before a port; only ports, TLS, folders, rates and origin are changed.

    kill: with all its processes on leaving, without a word to anybody.
    """
    port = port or free_port()
    name, changes = ("relay.nginx.conf", NGINX) if kind == "nginx" else ("relay.Caddyfile", CADDY)
    text = (DOCKER / name).read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new.format(port=port, upstream=upstream, folder=folder))
    text = text.replace("https://app.example.org", origin or "https://app.example.org")
    config = folder / name
    if kind == "nginx":
        text = re.sub(r"^ *(ssl|proxy_ssl)_.*$", "", text, flags=re.MULTILINE)
        command = [program(kind), "-p", str(folder), "-c", str(config), "-g", "daemon off;"]
    else:
        command = [program(kind), "run", "--adapter", "caddyfile", "--config", str(config)]
    config.write_text(text)
    environment = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, env=environment, start_new_session=True
    )
    try:
        await_port(port, process)
        yield f"http://127.0.0.1:{port}/ohttp"
    finally:
        if kill:
            os.killpg(process.pid, signal.SIGKILL)
        process.terminate()
        process.communicate(timeout=20)


class Seen(BaseHTTPRequestHandler):
    """Answers as a collector, with headers that would mark a device; shows what it was sent."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        shown = {"path": self.path, "headers": headers, "body": body.decode()}
        answer = json.dumps(shown).encode()
        self.send_response_only(200)
        for name, value in {
            "Content-Type": RESPONSE_TYPE,
            "Content-Length": str(len(answer)),
            "Set-Cookie": "mark=1",
            "ETag": '"mark"',
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that a worker of nginx may read, whoever it runs as."""
    tmp_path.chmod(0o755)
    made = tmp_path / "relay"
    made.mkdir()
    return made


@pytest.mark.parametrize("kind", ["nginx", "caddy"])
def test_the_collector_sees_three_headers(kind: str, folder: Path) -> None:
    with (
        serving_with(Seen) as collector,
        running_relay(kind, folder, urlsplit(collector).port or 0) as url,
    ):
        answer = httpx.post(f"{url}?who=1", content=b"sealed", headers={**OUTER, **IDENTIFYING})
        got = httpx.get(url)
        elsewhere = httpx.post(url.replace("/ohttp", "/v1/reports"), content=b"x")
        large = httpx.post(url, content=bytes(2 << 20), headers=OUTER)
    seen = answer.json()
    assert seen["headers"].keys() == {"host", "content-type", "content-length"}
    assert seen["headers"]["host"] == "telemetry.example.org"
    assert seen["headers"]["content-type"] == OUTER["content-type"]
    assert (seen["path"], seen["body"]) == ("/v1/ohttp", "sealed")
    assert answer.headers["content-type"] == RESPONSE_TYPE
    assert not {"set-cookie", "etag"} & set(answer.headers)
    assert got.status_code in (403, 404)
    assert elsewhere.status_code == 404
    assert large.status_code == 413


@pytest.mark.parametrize(
    ("origin", "may"),
    [("https://app.example.org", True), ("https://app.example.org.evil.example", False)],
)
def test_pages_of_a_named_origin_may_send(origin: str, may: bool, folder: Path) -> None:
    with (
        serving_with(Seen) as collector,
        running_relay("nginx", folder, urlsplit(collector).port or 0) as url,
    ):
        asked = httpx.options(
            url, headers={"origin": origin, "access-control-request-method": "POST"}
        )
        answer = httpx.post(url, content=b"sealed", headers={**OUTER, "origin": origin})
    assert asked.status_code == 204
    assert asked.headers["access-control-allow-headers"] == "Content-Type"
    for one in (asked, answer):
        assert one.headers.get("access-control-allow-origin") == (origin if may else None)
        assert one.headers["vary"] == "Origin"
        assert "access-control-allow-credentials" not in one.headers
    assert answer.json()["headers"].keys() == {"host", "content-type", "content-length"}


def client_of(folder: Path, url: str, config: KeyConfig, clock: Clock) -> Client:
    return Client.open(
        MetricsFile({METRIC.name: METRIC}),
        state_dir=folder / "state",
        collector="https://telemetry.example.org",
        consent=True,
        delivery=Delivery(mean_delay=0, first_pause=0.05, longest_pause=0.2, batch_reports=5),
        relay=Relay(url, encode_keys([config])),
        clock=lambda: clock().timestamp(),
    )


@pytest.mark.parametrize("kind", ["nginx", "caddy"])
def test_a_device_behind_the_relay_is_counted_once(
    kind: str, folder: Path, serving: ServerMaker, clock: Clock
) -> None:
    file, (config,) = new_keys(folder.parent)
    with serving([METRIC], ohttp_keys=file) as server:
        with running_relay(kind, folder, server.http.base_url.port or 0) as url:
            with client_of(folder, url, config, clock) as client:
                assert client.record(METRIC.name, "a"), client.last_refusal
                assert client.flush(20), client.last_error
            with httpx.Client() as http:
                behind = Behind(http, config, url)
                sealed, exchange = behind.seal(server.sender.body(server.sender.reports(METRIC, 2)))
                for _ in range(2):
                    assert opened(behind.pass_on(sealed), exchange).status == 200
        text = server.http.get("/metrics").text
    assert "rappor_reports_accepted_total 3.0" in text
    assert "rappor_batches_duplicate_total 1.0" in text


@pytest.mark.parametrize("kills", [5, pytest.param(100, marks=pytest.mark.long)])
def test_a_killed_relay_counts_each_once(
    kills: int, folder: Path, serving: ServerMaker, clock: Clock
) -> None:
    file, (config,) = new_keys(folder.parent)
    draw, port, recorded = random.Random(5), free_port(), 0
    with serving([METRIC], ohttp_keys=file) as server:
        upstream = server.http.base_url.port or 0
        with client_of(folder, f"http://127.0.0.1:{port}/ohttp", config, clock) as client:
            for _ in range(kills):
                with running_relay("nginx", folder, upstream, port, kill=True):
                    for _ in range(20):
                        recorded += client.record(METRIC.name, "a")
                        time.sleep(draw.uniform(0, 0.01))
            with running_relay("nginx", folder, upstream, port):
                assert client.flush(60), client.last_error
        text = server.http.get("/metrics").text
    assert f"rappor_reports_accepted_total {float(recorded)}" in text
    assert recorded == 20 * kills
