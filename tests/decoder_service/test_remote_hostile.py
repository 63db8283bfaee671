"""Any answer to `decoder_service.client` that is wrong is refused in words and held to a size."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest

from decoder.errors import RemoteError
from decoder_service import client
from decoder_service.client import Result, Service
from tests.http_server import serving_with

DEEP = b"[" * 200_000


@contextmanager
def answering(code: int, body: bytes, length: int | None = None) -> Iterator[Service]:
    """A server that gives one answer to everything. length: as it says; that of the body."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(len(body) if length is None else length))
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    with serving_with(Handler) as url:
        yield Service(url, "key")


ASKED: list[Callable[[Service], object]] = [
    Service.jobs,
    Service.results,
    Service.lists,
    Service.usage,
    lambda service: service.job("a").state,
    lambda service: service.result("a").id,
]


@pytest.mark.parametrize("body", [DEEP, b"[]", b"\xff", b""])
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with answering(200, body) as service:
        for ask in ASKED:
            with pytest.raises(RemoteError, match="is not a decoder service; check the address"):
                ask(service)


def test_what_has_no_such_member_is_refused() -> None:
    with answering(200, b'{"other": 1}') as service:
        for ask in ASKED:
            if ask is not Service.usage:
                with pytest.raises(RemoteError, match="the answer has no '"):
                    ask(service)
    for rows in (b'{"jobs": 3}', b'{"jobs": [1, null]}'):
        with answering(200, rows) as service, pytest.raises(RemoteError, match="is not a decoder"):
            service.jobs()


def test_an_answer_is_held_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_ANSWER_BYTES", 1000)
    with answering(200, b"x" * 1001) as service:
        for ask in (Service.jobs, lambda one: Result(one, {"id": "a"}).file("report.html")):
            with pytest.raises(RemoteError, match="sends more than 1,000 bytes"):
                ask(service)
    with (
        answering(200, b"{}", 100) as service,
        pytest.raises(RemoteError, match="complete"),
    ):
        service.jobs()


def test_refusals_are_shown_as_short_text() -> None:
    said = {"detail": "\x1b[31mred\u202e" + "x" * 100_000}
    with answering(400, json.dumps(said).encode()) as service:
        with pytest.raises(RemoteError) as refused:
            service.jobs()
        assert str(refused.value).isprintable()
        assert len(str(refused.value)) < 2100
    with (
        answering(307, b"") as service,
        pytest.raises(RemoteError, match="another address, which is not followed"),
    ):
        service.jobs()
