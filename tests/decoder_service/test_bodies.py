"""Bodies of requests: who sends one is known first; large ones are read in another process."""

import asyncio
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.types import Message

from decoder_service.shell.app import create_app
from decoder_service.shell.errors import UnavailableError
from decoder_service.shell.requests import OPEN_BODY_BYTES, include
from decoder_service.worker import process_limits
from decoder_service.worker.process_limits import SMALL_BYTES, Reader
from rappor_server.errors import RequestError
from tests.decoder_service.reading_functions import await_go, endless, many_lists, process_of
from tests.decoder_service.support import Running, running, settings_of
from tests.waiting import until

REFUSED = (303, 401, 413)


def routes_of(app: FastAPI) -> list[APIRoute]:
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
    """Status and bytes taken of a body that is endless, or that ends early."""
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
    lines = [(name.encode(), value.encode()) for name, value in given.items()]
    where = {"path": path, "raw_path": path.encode(), "root_path": "", "query_string": b""}
    ends = {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2), "state": {}}
    scope = {"type": "http", "scheme": "http", "method": method, "headers": lines} | where | ends
    await app(scope, receive, send)
    return statuses[0], taken


def test_a_route_that_is_not_guarded_is_refused() -> None:
    router = APIRouter()
    router.add_api_route("/x", lambda: None)
    with pytest.raises(TypeError, match="not guarded"):
        include(FastAPI(), router)


def test_without_keys_no_body_is_read(served: Running, app: FastAPI) -> None:
    """For every route, and the next one that is added."""
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


def test_a_body_that_ends_early_is_no_defect(served, app, capsys) -> None:
    """A client that hangs up gets no response, and the log holds no error of ours."""
    app.state.service = served.service
    key = f"Bearer {served.keys['root']}"
    for route in routes_of(app):
        if "POST" in route.methods or "PUT" in route.methods:
            kind = "application/x-www-form-urlencoded"
            given = {"authorization": key, "content-type": kind}
            status, _ = asyncio.run(taken_by(app, *address_of(route), ends_early=True, **given))
            assert status < 500, address_text(route)
    assert "defect" not in capsys.readouterr().err


LARGE = SMALL_BYTES + 1
ANALYSTS = 10


def test_a_large_file_is_read_in_another_process() -> None:
    reader = Reader()
    assert reader.read(process_of, b"a") == os.getpid()
    assert reader.read(process_of, b"a" * LARGE) != os.getpid()


def test_memory_and_time_are_bounded() -> None:
    with pytest.raises(RequestError, match="takes more than 64 MiB of memory"):
        Reader(memory=64 << 20).read(many_lists, b"a" * LARGE)
    with pytest.raises(RequestError, match="takes more than 1 seconds to read"):
        Reader(seconds=1).read(endless, b"a" * LARGE)


def read_until(folder: Path, reader: Reader, number: int, ends: list[object]) -> None:
    """Read a file in a process that continues until there is a file `go`."""
    try:
        ends.append(reader.read(await_go, b"a" * LARGE, str(folder), number))
    except UnavailableError as error:
        ends.append(str(error))


def test_large_files_take_turns_and_give_way(tmp_path, monkeypatch) -> None:
    """A processor is left to the service, and threads to other requests, whoever uploads."""
    monkeypatch.setattr(process_limits, "MAX_WAITING", places := 3)
    ends, once = list[object](), max(1, (os.cpu_count() or 1) - 1)
    given = (tmp_path, Reader())
    threads = [
        threading.Thread(target=read_until, args=(*given, number, ends)) for number in range(places)
    ]
    for thread in threads:
        thread.start()
    until(lambda: len(list(tmp_path.glob("nice-*"))) >= once, 120)
    read_until(*given, places, ends)
    assert ends == [f"{places} large files are being read or waiting; send it again in a "
                    "minute"]  # fmt: skip
    started = list(tmp_path.glob("nice-*"))
    assert len(started) == once
    (tmp_path / "go").touch()
    for thread in threads:
        thread.join()
    assert sorted(map(str, ends[1:])) == sorted(map(str, range(places)))
    own = os.nice(0)
    assert {int(one.read_text()) for one in tmp_path.glob("nice-*")} == {min(19, own + 5)}


def upload(served: Running, body: bytes, statuses: list[int]) -> None:
    with served.client("ana") as ana:
        statuses.append(ana.post("/v1/aggregates", content=body, timeout=600).status_code)


def seconds_of_answer(client: httpx.Client) -> float:
    before = time.monotonic()
    assert client.get("/v1/session", timeout=600).status_code == 200
    return time.monotonic() - before


def percentile_99(seconds: list[float]) -> float:
    return sorted(seconds)[int(0.99 * len(seconds))]


@pytest.mark.long
def test_others_are_served_while_large_files_are_read(tmp_path: Path) -> None:
    """99 of 100 answers within .3 s, and ten times what they take before on a busy machine."""
    body = b'{"a":[' + b"[]," * ((1 << 20) // 3) + b"[]]}"
    alone, beside, statuses = list[float](), list[float](), list[int]()
    with running(f"sqlite:///{tmp_path}/d.sqlite") as served, served.client("ben") as ben:
        for _ in range(100):
            alone.append(seconds_of_answer(ben))
        threads = [
            threading.Thread(target=upload, args=(served, body, statuses)) for _ in range(ANALYSTS)
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            beside.append(seconds_of_answer(ben))
            threads[-1].join(0.05)
        for thread in threads:
            thread.join()
    before, meanwhile = percentile_99(alone), percentile_99(beside)
    print(f"99 of 100 answers: {before:.3f} s alone, {meanwhile:.3f} s of {len(beside)} beside")
    assert statuses == [422] * ANALYSTS
    assert meanwhile < 0.3 + 10 * before
