"""The relays and proxies of docker/, run for real: what of a request reaches the collector."""

import json
import random
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from client_sdk import Client, Delivery, Relay
from collector.routes.ohttp import refuse_shown_sender
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.ohttp.encapsulation import RESPONSE_TYPE, KeyConfig, encode_keys
from tests.collector.proxies import DOCKER, program, running_proxy
from tests.collector.support import Clock, Server, make_metric
from tests.free_ports import free_port
from tests.http_server import Handler, serving_with
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


@contextmanager
def running_relay(
    kind: str, folder: Path, upstream: int, port: int = 0, *, kill: bool = False
) -> Iterator[str]:
    """A relay of docker/ before a port; only ports, TLS, folders and rates are changed."""
    if kind == "caddy":
        version = subprocess.run([program(kind), "version"], capture_output=True, text=True).stdout
        if version.lstrip("v").startswith("2.6."):
            pytest.skip("Caddy 2.6 cannot delete all headers, so its relay in docker/ was not run")
    port = port or free_port()
    name, changes = ("relay.nginx.conf", NGINX) if kind == "nginx" else ("relay.Caddyfile", CADDY)
    own = [(old, new.format(port=port, upstream=upstream, folder=folder)) for old, new in changes]
    with running_proxy(kind, name, folder, port, own, kill=kill):
        yield f"http://127.0.0.1:{port}/ohttp"


class Seen(Handler):
    """Answers as a collector, with headers that would mark a device; shows what it was sent."""

    def do_POST(self) -> None:  # noqa: N802
        headers = {name.lower(): value for name, value in self.headers.items()}
        shown = {"path": self.path, "headers": headers, "body": self.body().decode()}
        marks = {"Set_Cookie": "mark=1", "ETag": '"mark"'}
        self.reply(200, json.dumps(shown).encode(), Content_Type=RESPONSE_TYPE, **marks)


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
def test_a_device_behind_the_relay_is_counted_once(kind, folder, serving, clock) -> None:
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
def test_a_killed_relay_counts_each_once(kills, folder, serving, clock) -> None:
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


PLAIN = make_metric()
JSON_TYPE = {"content-type": "application/json"}


@contextmanager
def nginx(folder: Path, upstream: int, service_port: int | None = None) -> Iterator[int]:
    """nginx before both services at `upstream`; yields the port of the collector's."""
    port = free_port()
    changes = (
        ("127.0.0.1:8000", f"127.0.0.1:{upstream}"),
        ("127.0.0.1:8100", f"127.0.0.1:{upstream}"),
        ("listen 8443 ssl;", f"listen 127.0.0.1:{port};"),
        ("listen 8444 ssl;", f"listen 127.0.0.1:{service_port or free_port()};"),
        ("client_header_timeout 10s", "client_header_timeout 1s"),
        ("client_body_timeout 10s", "client_body_timeout 1s"),
        ("/tmp/nginx", f"{folder}/nginx"),
    )
    with running_proxy("nginx", "nginx.conf", folder, port, changes):
        yield port


@contextmanager
def caddy(folder: Path, upstream: int, relay: str = "192.0.2.10") -> Iterator[int]:
    """Caddy before a collector, for a relay's address; yields its port."""
    name, port = "collector.Caddyfile", free_port()
    file = str(DOCKER / name)
    command = [program("caddy"), "validate", "--adapter", "caddyfile", "--config", file]
    done = subprocess.run(command, capture_output=True, env={"HOME": str(folder)}, text=True)
    assert done.returncode == 0, done.stderr
    changes = (
        ("{\n\tservers {", "{\n\tadmin off\n\tservers {"),
        ("telemetry.example.org {", f"http://127.0.0.1:{port} {{"),
        ("127.0.0.1:8000", f"127.0.0.1:{upstream}"),
        ("read_header 10s", "read_header 1s"),
        ("192.0.2.10", relay),
    )
    with running_proxy("caddy", name, folder, port, changes):
        yield port


Proxied = tuple[Server, httpx.Client, int]
BY_EITHER = pytest.mark.parametrize("proxied", [nginx, caddy], indirect=True)
BY_NGINX = pytest.mark.parametrize("proxied", [nginx], indirect=True)


@pytest.fixture
def proxied(serving, folder, request) -> Iterator[Proxied]:
    with (
        serving([PLAIN]) as server,
        request.param(folder, server.http.base_url.port or 0) as port,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10, headers=JSON_TYPE) as http,
    ):
        yield server, http, port


@BY_EITHER
def test_the_proxy_passes_reports_and_nothing_else(proxied: Proxied) -> None:
    server, http, _ = proxied
    body = server.sender.body(server.sender.reports(PLAIN, 5))
    assert http.post("/v1/reports", content=body).json()["results"] == [{"status": "accepted"}] * 5
    for path in ("/metrics", "/v1/metrics", "/v1/keys", "/readyz", "/v1/reports/x"):
        assert http.get(path).status_code == 404
    alone = http.post("/v1/ohttp", content=body)  # of the relay, which this is not
    assert alone.status_code == (403 if "nginx" in alone.headers["server"] else 404)
    assert http.post("/v1/reports", content=b" " * (2 << 20)).status_code == 413


@BY_EITHER
def test_the_proxy_ends_slow_connections_meanwhile_answering(proxied: Proxied) -> None:
    server, http, port = proxied
    slow = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(40)]
    for one in slow:
        one.sendall(b"POST /v1/reports HTTP/1.1\r\nHost: x\r\n")
    body = server.sender.body(server.sender.reports(PLAIN, 1))
    assert http.post("/v1/reports", content=body).status_code == 200
    for one in slow:
        received = one.recv(100)
        assert received == b"" or b" 408 " in received
        one.close()


@BY_NGINX
def test_the_proxy_answers_too_many_requests_as_overload(proxied: Proxied) -> None:
    _, http, _ = proxied

    def post(_: int) -> httpx.Response | None:
        try:
            return http.post("/v1/reports", content=b"{")
        except httpx.RemoteProtocolError:  # a slow thread, whose connection the proxy has ended
            return None

    with ThreadPoolExecutor(8) as pool:  # together they are quicker than the limit
        answers = [answer for answer in pool.map(post, range(400)) if answer is not None]
    assert len(answers) > 380
    refused = [answer for answer in answers if answer.status_code == 503]
    assert refused
    assert refused[0].headers["retry-after"] == "10"
    assert refused[0].json()["type"].endswith("overloaded")


def test_caddy_adds_nothing_to_what_a_relay_passes_on(tmp_path: Path) -> None:
    """The collector refuses every other header."""
    with (
        serving_with(Echo) as upstream,
        caddy(tmp_path, urlsplit(upstream).port or 0, "127.0.0.1") as port,
    ):
        connection = HTTPConnection("127.0.0.1", port, timeout=10)
        connection.putrequest("POST", "/v1/ohttp", skip_accept_encoding=True)
        connection.putheader("Content-Type", "message/ohttp-req")
        connection.putheader("Content-Length", "1")
        connection.putheader("Via", "1.1 Caddy")  # as Caddy adds from 2.10 on
        connection.endheaders(b"x")
        names = connection.getresponse().read().split()
        connection.close()
    assert b"content-type" in names
    refuse_shown_sender(names)


class Echo(Handler):
    """Answers with the names of the headers that it got, before it reads a body."""

    def do_POST(self) -> None:  # noqa: N802
        self.reply(200, "\n".join(sorted(name.lower() for name in self.headers)).encode())


def test_the_proxy_passes_the_service_without_addresses(tmp_path: Path) -> None:
    """Cookies are its sessions; a body is not held back, so that the key is asked for first."""
    tmp_path.chmod(0o755)
    port = free_port()
    with serving_with(Echo) as service, nginx(tmp_path, urlsplit(service).port or 0, port):
        asked = "Cookie: s=1\r\nX-Forwarded-For: 192.0.2.1\r\nX-Real-IP: 192.0.2.1\r\n"
        found = _answer_before_the_body(port, asked, 60 << 20)
        large = _answer_before_the_body(port, asked, 65 << 20)
    names = set(found.partition("\r\n\r\n")[2].splitlines())
    assert {"cookie", "host", "content-length"} <= names
    assert not names & {"x-forwarded-for", "x-real-ip"}
    assert large.startswith("HTTP/1.1 413 ")


def _answer_before_the_body(port: int, headers: str, length: int) -> str:
    """The response to a request of which one byte of `length` has been sent."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as opened:
        head = f"POST /v1/lists HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {length}\r\n\r\n"
        opened.sendall(head.encode() + b"x")
        with opened.makefile("rb") as answer:
            lines = list(iter(answer.readline, b"\r\n"))
            size = next(
                int(one.split()[1]) for one in lines if one.lower().startswith(b"content-l")
            )
            return b"".join([*lines, b"\r\n", answer.read(size)]).decode()
