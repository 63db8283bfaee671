"""The files of docker/: checked as text, their commands run here, the proxy run if it is there."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from collector.routes.ohttp import refuse_shown_sender
from tests.collector.crash import announced_port, await_ready
from tests.collector.support import Server, ServerMaker, make_metric
from tests.free_ports import free_port
from tests.http_server import serving_with
from tests.waiting import until

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
METRIC = make_metric()


Instructions = list[tuple[str, str]]


def instructions() -> Instructions:
    """(instruction, arguments) of the Dockerfile, continuation lines joined."""
    text = (DOCKER / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in lines]


def stages() -> dict[str, Instructions]:
    """By name, the instructions of each stage, those of the stage that it is built on first."""
    found: dict[str, Instructions] = {}
    name = ""
    for pair in instructions():
        if pair[0] == "FROM":
            base, _, name = pair[1].split()
            found[name] = list(found.get(base, []))
        elif name:
            found[name].append(pair)
    return found


def environment_of(stage: Instructions) -> dict[str, str]:
    words = [word for name, rest in stage if name == "ENV" for word in rest.split()]
    return dict(word.split("=", 1) for word in words)


@pytest.mark.long
def test_the_images_commands_run_outside_it(tmp_path: Path) -> None:
    """ENTRYPOINT + CMD with the image's environment, and its health check against them."""
    stage = dict(stages()["collector"])
    found = environment_of(stages()["collector"])
    variables = {name: value for name, value in found.items() if name.startswith("RAPPOR_")}
    assert variables.keys() == {"RAPPOR_HOST", "RAPPOR_PORT", "RAPPOR_DATABASE"}
    environment = os.environ | variables | {
        "RAPPOR_HOST": "127.0.0.1",
        "RAPPOR_PORT": "0",
        "RAPPOR_DATABASE": f"sqlite:///{tmp_path}/rappor.sqlite",
        "RAPPOR_METRICS": str(DOCKER / "metrics.toml"),
        "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    command = [sys.executable, "-m", "rappor_cli", *json.loads(stage["CMD"])]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        port = announced_port(process)
        await_ready(port)
        assert is_healthy(stage, port)
    finally:
        process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == 0
    assert not is_healthy(stage, port)


def is_healthy(stage: dict[str, str], port: int) -> bool:
    """What the image's health check says of a collector at this port."""
    check = json.loads(stage["HEALTHCHECK"].partition("CMD ")[2])
    check[0] = sys.executable
    environment = os.environ | {"RAPPOR_PORT": str(port)}
    return subprocess.run(check, env=environment, capture_output=True).returncode == 0


@contextmanager
def nginx(folder: Path, upstream: int, service_port: int | None = None) -> Iterator[int]:
    """nginx with docker/nginx.conf; only ports, TLS and times to wait are changed for the test.

    Both services are `upstream`. Yields the port of the collector's.
    """
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        pytest.skip("nginx is not installed, so docker/nginx.conf was not run (apt install nginx)")
    port = free_port()
    text = (DOCKER / "nginx.conf").read_text()
    for old, new in (
        ("127.0.0.1:8000", f"127.0.0.1:{upstream}"),
        ("127.0.0.1:8100", f"127.0.0.1:{upstream}"),
        ("listen 8443 ssl;", f"listen 127.0.0.1:{port};"),
        ("listen 8444 ssl;", f"listen 127.0.0.1:{service_port or free_port()};"),
        ("client_header_timeout 10s", "client_header_timeout 1s"),
        ("client_body_timeout 10s", "client_body_timeout 1s"),
        ("/tmp/nginx", f"{folder}/nginx"),
    ):
        assert old in text
        text = text.replace(old, new)
    text = re.sub(r"^ *ssl_.*$", "", text, flags=re.MULTILINE)
    config = folder / "nginx.conf"
    config.write_text(text)
    command = [program, "-p", str(folder), "-c", str(config), "-g", "daemon off;"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        await_port(port, process)
        yield port
    finally:
        process.terminate()
        process.communicate(timeout=20)


def await_port(port: int, process: subprocess.Popen[bytes]) -> None:

    def answers() -> bool:
        assert process.poll() is None, process.communicate()[1]
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return True
        return False

    until(answers)


@pytest.fixture
def proxied(serving: ServerMaker, tmp_path: Path) -> Iterator[tuple[Server, httpx.Client, int]]:
    tmp_path.chmod(0o755)
    with serving([METRIC]) as server:
        folder = tmp_path / "proxy"
        folder.mkdir()
        with (
            nginx(folder, server.http.base_url.port or 0) as port,
            httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10) as http,
        ):
            yield server, http, port


def test_the_proxy_passes_reports_and_nothing_else(
    proxied: tuple[Server, httpx.Client, int],
) -> None:
    server, http, _ = proxied
    body = server.sender.body(server.sender.reports(METRIC, 5))
    headers = {"content-type": "application/json"}
    answer = http.post("/v1/reports", content=body, headers=headers)
    assert answer.json()["results"] == [{"status": "accepted"}] * 5
    for path in ("/metrics", "/v1/metrics", "/v1/keys", "/readyz", "/v1/reports/x"):
        assert http.get(path).status_code == 404
    large = http.post("/v1/reports", content=b" " * (2 << 20), headers=headers)
    assert large.status_code == 413


def test_the_proxy_ends_slow_connections_meanwhile_answering(
    proxied: tuple[Server, httpx.Client, int],
) -> None:
    server, http, port = proxied
    slow = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(40)]
    for one in slow:
        one.sendall(b"POST /v1/reports HTTP/1.1\r\nHost: x\r\n")
    body = server.sender.body(server.sender.reports(METRIC, 1))
    answer = http.post("/v1/reports", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 200
    for one in slow:
        received = one.recv(100)
        assert received == b"" or b" 408 " in received
        one.close()


def test_the_proxy_answers_too_many_requests_as_overload(
    proxied: tuple[Server, httpx.Client, int],
) -> None:
    _, http, _ = proxied
    headers = {"content-type": "application/json"}

    def post(_: int) -> httpx.Response | None:
        try:
            return http.post("/v1/reports", content=b"{", headers=headers)
        except httpx.RemoteProtocolError:  # a slow thread, whose connection the proxy has ended
            return None

    with ThreadPoolExecutor(8) as pool:  # together they are quicker than the limit
        answers = [answer for answer in pool.map(post, range(400)) if answer is not None]
    assert len(answers) > 380
    refused = [answer for answer in answers if answer.status_code == 503]
    assert refused
    assert refused[0].headers["retry-after"] == "10"
    assert refused[0].json()["type"].endswith("overloaded")


@contextmanager
def caddy(folder: Path, upstream: int, relay: str = "192.0.2.10") -> Iterator[int]:
    """docker/collector.Caddyfile; only ports, TLS, a time to wait and the relay's address change.

    Yields its port.
    """
    program = shutil.which("caddy")
    if program is None:
        pytest.skip("caddy is not installed, so docker/collector.Caddyfile was not run")
    file, port = DOCKER / "collector.Caddyfile", free_port()
    command = [program, "validate", "--adapter", "caddyfile", "--config", str(file)]
    environment = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, env=environment, text=True)
    assert done.returncode == 0, done.stderr
    text = file.read_text()
    for old, new in (
        ("{\n\tservers {", "{\n\tadmin off\n\tservers {"),
        ("telemetry.example.org {", f"http://127.0.0.1:{port} {{"),
        ("127.0.0.1:8000", f"127.0.0.1:{upstream}"),
        ("read_header 10s", "read_header 1s"),
        ("192.0.2.10", relay),
    ):
        assert old in text
        text = text.replace(old, new)
    config = folder / "Caddyfile"
    config.write_text(text)
    command = [program, "run", "--adapter", "caddyfile", "--config", str(config)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment)
    try:
        await_port(port, process)
        yield port
    finally:
        process.terminate()
        process.communicate(timeout=20)


def test_caddy_passes_reports_and_nothing_else(serving: ServerMaker, tmp_path: Path) -> None:
    with (
        serving([METRIC]) as server,
        caddy(tmp_path, server.http.base_url.port or 0) as port,
        httpx.Client(base_url=f"http://127.0.0.1:{port}") as http,
    ):
        body = server.sender.body(server.sender.reports(METRIC, 5))
        headers = {"content-type": "application/json"}
        answer = http.post("/v1/reports", content=body, headers=headers)
        assert answer.json()["results"] == [{"status": "accepted"}] * 5
        for path in ("/metrics", "/v1/metrics", "/v1/keys", "/readyz", "/v1/reports/x"):
            assert http.get(path).status_code == 404
        assert http.post("/v1/ohttp", content=body).status_code == 404  # not the relay
        large = http.post("/v1/reports", content=b" " * (65 << 10), headers=headers)
        assert large.status_code == 413
        with socket.create_connection(("127.0.0.1", port), timeout=10) as slow:
            slow.sendall(b"POST /v1/reports HTTP/1.1\r\nHost: x\r\n")
            received = slow.recv(100)
        assert received == b"" or b" 408 " in received


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


class Echo(BaseHTTPRequestHandler):
    """Answers with the names of the headers that it got, before it reads a body."""

    def do_POST(self) -> None:
        body = "\n".join(sorted(name.lower() for name in self.headers)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


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
    """What a request is told of which one byte of `length` has been sent."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as opened:
        head = f"POST /v1/lists HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {length}\r\n\r\n"
        opened.sendall(head.encode() + b"x")
        with opened.makefile("rb") as answer:
            lines = list(iter(answer.readline, b"\r\n"))
            size = next(
                int(one.split()[1]) for one in lines if one.lower().startswith(b"content-l")
            )
            return b"".join([*lines, b"\r\n", answer.read(size)]).decode()
