"""Bodies of requests: who sends one, and how large it is, is known before any of it is read."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.types import Message

from decoder_service.metrics.rules import DeclaredMetrics, Metrics
from decoder_service.shell.app import create_app
from decoder_service.shell.guard import OPEN_BODY_BYTES, GuardedRoute, include, is_open
from tests.collector.support import make_metric
from tests.decoder_service.support import Running, running, settings_of

STATED = 60 << 20
SENT = 256 << 10
REFUSED = (303, 401, 413)
TRIES = 5
MAX_SECONDS = 0.05  # of processor time


def routes_of(app: FastAPI) -> list[APIRoute]:
    """All routes of an app, of routers too."""
    found: list[Any] = []
    for one in app.routes:
        found += getattr(getattr(one, "original_router", None), "routes", [one])
    return [one for one in found if isinstance(one, APIRoute)]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    """One that is called without its start, and so ends without its stop."""
    made = create_app(settings_of(f"sqlite:///{tmp_path_factory.mktemp('app')}/decoder.sqlite"))
    own = made.state.service  # tests put another in its place
    yield made
    own.close()


def address_of(route: APIRoute) -> tuple[str, str]:
    """A method of a route, and a path that leads to it."""
    method = sorted(route.methods)[0]
    return method, "/".join("x" if "{" in part else part for part in route.path.split("/"))


def address_text(route: APIRoute) -> str:
    return " ".join(address_of(route))


def all_routes() -> list[APIRoute]:
    return routes_of(create_app(settings_of("sqlite:////tmp/decoder.sqlite")))


async def taken_by(
    app: FastAPI, method: str, path: str, *, ends_early: bool = False, **headers: str
) -> tuple[int, int]:
    """The status of an answer to an endless body of JSON, and how many of its bytes were taken.

    ends_early: whether who sends it hangs up.
    """
    taken = 0
    statuses = []

    async def receive() -> Message:
        nonlocal taken
        if ends_early and taken:
            return {"type": "http.disconnect"}
        chunk = b"[],[]," * 5000
        taken += len(chunk)
        return {"type": "http.request", "body": chunk, "more_body": True}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    given = {"content-type": "application/json", "host": "x"} | headers
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "state": {},
    }
    await app(scope, receive, send)
    return statuses[0], taken


@contextmanager
def refusing(served: Running) -> Iterator[socket.socket]:
    """A connection to the service."""
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as one:
        yield one


def test_every_route_is_in_the_table(app: FastAPI) -> None:
    routes = routes_of(app)
    assert len(routes) > 100
    assert all(isinstance(route, GuardedRoute) for route in routes)


def test_a_route_that_is_not_guarded_is_refused() -> None:
    router = APIRouter()
    router.add_api_route("/x", lambda: None)
    with pytest.raises(TypeError, match="not guarded"):
        include(FastAPI(), router)


def test_without_keys_no_body_is_read(served: Running, app: FastAPI) -> None:
    """Of every route, and of the next one that is added."""
    app.state.service = served.service
    for route in routes_of(app):
        status, taken = asyncio.run(taken_by(app, *address_of(route)))
        if is_open(route):
            assert taken <= 2 * OPEN_BODY_BYTES, address_text(route)
        else:
            assert (taken, status in REFUSED) == (0, True), address_text(route)


def test_a_large_body_is_refused_in_no_time(served: Running) -> None:
    """Of every route, over HTTP: with the stated length, and with a quarter of a megabyte."""
    body = b"[]," * (SENT // 3)
    for route in all_routes():
        method, path = address_of(route)
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        text = f"{head}Content-Length: {STATED}\r\n\r\n".encode() + body
        spent = []  # other threads of the process count, so the least of a few tries
        while len(spent) < TRIES and min(spent, default=MAX_SECONDS) >= MAX_SECONDS:
            with refusing(served) as one:
                before = time.process_time()
                one.sendall(text)
                status = int(one.recv(12)[9:12])
                spent.append(time.process_time() - before)
            assert status in REFUSED, address_text(route)
        assert min(spent) < MAX_SECONDS, (address_text(route), spent)


def test_a_viewer_sends_no_files(served: Running, app: FastAPI) -> None:
    app.state.service = served.service
    key = f"Bearer {served.keys['vic']}"
    for path in ("/v1/lists", "/v1/aggregates", "/lists", "/lists/x/versions", "/lists/aggregates"):
        assert asyncio.run(taken_by(app, "POST", path, authorization=key)) == (403, 0), path


def test_only_routes_that_take_files_take_more(served: Running, app: FastAPI) -> None:
    app.state.service = served.service
    most = served.service.settings.max_body_bytes
    assert most == 256 << 10
    key = f"Bearer {served.keys['ana']}"
    for path in ("/v1/lists/x/share", "/v1/jobs"):
        status, taken = asyncio.run(taken_by(app, "POST", path, authorization=key))
        assert (status, taken < most + (64 << 10)) == (413, True), path


def test_silent_connections_shut_nobody_out(tmp_path: Path) -> None:
    """More than 260, which the service once took at most; and one head without an end."""
    with running(f"sqlite:///{tmp_path}/d.sqlite") as served:
        host, port = served.url.removeprefix("http://").split(":")
        silent = [socket.create_connection((host, int(port))) for _ in range(300)]
        try:
            endless = silent[0]
            endless.sendall(b"GET / HTTP/1.1\r\nA: " + b"a" * (40 << 10))
            with served.client("ana") as ana:
                assert ana.get("/v1/session").status_code == 200
            endless.settimeout(20)
            assert endless.recv(100).startswith(b"HTTP/1.1 431")
        finally:
            for one in silent:
                one.close()


MAX_OPEN_SECONDS = 0.02  # of processor time, of an answer that anyone may ask for again and again


def test_public_files_are_not_made_anew(
    served: Running, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every route without a key, with forty metrics in the dictionary."""
    app.state.service = served.service
    one = make_metric().to_dict()
    many = DeclaredMetrics([one | {"name": f"m{n}"} for n in range(40)], "")
    monkeypatch.setattr(Metrics, "public", lambda _: many)
    for method, path in [
        ("GET", "/openapi.json"),
        *map(address_of, filter(is_open, routes_of(app))),
    ]:
        asyncio.run(taken_by(app, method, path))
        spent = []
        for _ in range(3):
            before = time.process_time()
            asyncio.run(taken_by(app, method, path))
            spent.append(time.process_time() - before)
        assert min(spent) < MAX_OPEN_SECONDS, (method, path, spent)


def test_a_body_that_ends_early_is_no_defect(
    served: Running, app: FastAPI, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of every route: who hangs up is told of nothing, and the log holds no error of ours."""
    app.state.service = served.service
    key = f"Bearer {served.keys['root']}"
    for route in routes_of(app):
        if "POST" in route.methods or "PUT" in route.methods:
            kind = "application/x-www-form-urlencoded"
            given = {"authorization": key, "content-type": kind}
            status, _ = asyncio.run(taken_by(app, *address_of(route), ends_early=True, **given))
            assert status < 500, address_text(route)
    assert "defect" not in capsys.readouterr().err
