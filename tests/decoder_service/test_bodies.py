"""Bodies of requests: who sends one, and how large it is, is known before any of it is read."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.types import Message

from decoder_service.shell.app import create_app
from decoder_service.shell.requests import OPEN_BODY_BYTES, include
from tests.decoder_service.support import Running, running, settings_of

REFUSED = (303, 401, 413)


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
        if route.is_open:
            assert taken <= 2 * OPEN_BODY_BYTES, address_text(route)
        else:
            assert (taken, status in REFUSED) == (0, True), address_text(route)


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
            endless.sendall(b"GET / HTTP/1.1\r\nA: " + b"a" * (70 << 10))
            with served.client("ana") as ana:
                assert ana.get("/v1/session").status_code == 200
            endless.settimeout(20)
            assert endless.recv(100).startswith(b"HTTP/1.1 400")
        finally:
            for one in silent:
                one.close()


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
