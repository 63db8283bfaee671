"""Answers that come before, with and instead of the collector's (RFC 9110)."""

import gzip
import json
import re
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any

import pytest

from client_sdk import Delivery
from client_sdk.delivery.messages import PROBLEM_TYPE, PROBLEM_URN
from tests.waiting import flush_in_vain

WHEN_FLUSHED = Delivery(mean_delay=3600.0, first_pause=0.05, timeout=2.0)
PORTAL = b"<html><title>Log in</title></html>"

Answer = Callable[[bytes, bytes], bytes]  # (what the collector would say, the body) -> all bytes


class Gateway:
    """Answers each request with bytes of the test's own, then closes the connection."""

    def __init__(self) -> None:
        self.answer: Answer = lambda said, _: said
        self.bodies: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as lines:
                head = b"".join(iter(lines.readline, b"\r\n"))
                size = int(re.search(rb"Content-Length: (\d+)", head)[1])  # type: ignore[index]
                body = lines.read(size)
                self.bodies.append(body)
                connection.sendall(self.answer(said_by_collector(body), body))


def said_by_collector(body: bytes) -> bytes:
    plain = zlib.decompress(body, 31)
    fields: dict[str, Any] = {"version": 1, "batch_id": plain[5:21].hex(), "duplicate": False}
    fields["results"] = [{"status": "accepted"}]
    return reply(200, json.dumps(fields).encode(), "application/json")


def reply(status: int, body: bytes, kind: str = "text/html", *more: str) -> bytes:
    fields = [f"Content-Type: {kind}", f"Content-Length: {len(body)}", *more]
    head = f"HTTP/1.1 {status} Said\r\n" + "".join(f"{field}\r\n" for field in fields)
    return head.encode() + b"\r\n" + body


def problem(status: int, body: bytes, /, **changes: object) -> bytes:
    fields = {"type": f"{PROBLEM_URN}x", "status": status, "detail": "no"}
    fields["body_sha256"] = sha256(body).hexdigest()
    return reply(status, json.dumps({**fields, **changes}).encode(), PROBLEM_TYPE)


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    running = Gateway()
    yield running
    running.close()


EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"
BEFORE: dict[str, Answer] = {
    "continue": lambda said, _: b"HTTP/1.1 100 Continue\r\n\r\n" + said,
    "processing": lambda said, _: b"HTTP/1.1 102 Processing\r\n\r\n" * 3 + said,
    "early hints": lambda said, _: EARLY + said,
    "compressed": lambda said, _: reply(
        200, gzip.compress(said.split(b"\r\n\r\n", 1)[1]), "application/json",
        "Content-Encoding: gzip",
    ),
    "chunked": lambda said, _: (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n"
        + b"%x\r\n%s\r\n0\r\nX: y\r\n\r\n" % (len(b := said.split(b"\r\n\r\n", 1)[1]), b)
    ),
    "until it closes": lambda said, _: b"HTTP/1.0 200 OK\r\n\r\n" + said.split(b"\r\n\r\n", 1)[1],
}  # fmt: skip


@pytest.mark.parametrize("how", BEFORE)
def test_the_collectors_answer_is_found(open_client: Any, gateway: Gateway, how: str) -> None:
    """http.client skips 100 alone; 103 was taken for the answer, and the batch sent for ever."""
    gateway.answer = BEFORE[how]
    client = open_client(collector=gateway.url, delivery=WHEN_FLUSHED)
    assert client.record("theme", "dark")
    assert client.flush(20), client.last_error
    assert client.inspect()["counters"] == {"accepted:theme": 1}


INSTEAD: dict[str, Answer] = {
    "captive portal": lambda *_: reply(200, PORTAL),
    "portal in json": lambda *_: reply(200, b'{"version": 1}', "application/json"),
    "no content": lambda *_: b"HTTP/1.1 204 No Content\r\n\r\n",
    "reset content": lambda *_: b"HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n",
    "accepted, later": lambda *_: reply(202, b""),
    "multi-status": lambda said, _: said.replace(b" 200 ", b" 207 "),
    "another protocol": lambda *_: (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"
        b"\0\0\0\4\0\0\0\0\0"
    ),
    "moved": lambda *_: reply(308, b"", "text/html", "Location: https://example.org/"),
    "web server's 400": lambda *_: reply(400, PORTAL),
    "request too large": lambda *_: reply(413, PORTAL),
    "misdirected": lambda *_: reply(421, PORTAL),
    "legal reasons": lambda *_: reply(451, PORTAL),
    "gateway's problem": lambda _, body: problem(422, body, type="about:blank"),
    "another status": lambda _, body: problem(422, body, status=400),
    "body lost": lambda *_: problem(422, b""),
    "body changed": lambda _, body: problem(400, body[:-1]),
    "body unread": lambda _, body: problem(415, body, body_sha256=None),
    "too large, unread": lambda _, body: problem(413, body, body_sha256=None),
    "cut off": lambda said, _: said[:-10],
    "another batch": lambda said, body: said.replace(
        zlib.decompress(body, 31)[5:21].hex().encode(), b"0" * 32
    ),
    "cached, partial": lambda said, _: said.replace(b" 200 ", b" 206 "),
    "only early hints": lambda *_: EARLY,
    "not http": lambda *_: b"\x16\x03\x01\x02\0\1",
    "silence": lambda *_: b"",
}


@pytest.mark.parametrize("what", INSTEAD)
def test_a_batch_waits_for_the_collectors_own_word(open_client, gateway, what) -> None:
    """uvicorn #2722 (a gateway lost the body), and what portals, proxies and caches answer."""
    gateway.answer = INSTEAD[what]
    client = open_client(collector=gateway.url, delivery=WHEN_FLUSHED)
    assert client.record("theme", "dark")
    flush_in_vain(client, lambda: client.last_error != "")
    assert client.inspect()["in_batches"] == 1
    gateway.answer = lambda said, _: said
    assert client.flush(20)
    assert client.inspect()["counters"] == {"accepted:theme": 1}
    assert len(set(gateway.bodies)) == 1


def test_the_collectors_final_word_ends_it(open_client: Any, gateway: Gateway) -> None:
    gateway.answer = lambda _, body: problem(422, body)
    client = open_client(collector=gateway.url, delivery=WHEN_FLUSHED)
    assert client.record("theme", "dark")
    assert not client.flush(20)
    assert client.inspect()["counters"] == {"dropped:http_422": 1}
