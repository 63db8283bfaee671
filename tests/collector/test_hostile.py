"""Hostile input over real HTTP: named 4xx problem documents, never a 500, memory bounded."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import random
import socket
import sqlite3
import threading
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import psutil
import pytest

from rappor_core.wire.binary import encode_binary
from rappor_core.wire.json import decode_json
from rappor_core.wire.report import BINARY_CONTENT_TYPE
from tests.collector.support import (
    TODAY,
    Clock,
    Sender,
    Server,
    ServerMaker,
    make_metric,
    running_server,
)
from tests.waiting import until

METRIC = make_metric()
GZIP = {"content-encoding": "gzip"}
MUTATIONS = [500, pytest.param(10_000, marks=pytest.mark.long)]
MAX_GROWTH = 50 << 20

ID = '"batch_id":"' + "0" * 32 + '"'
REPORT = (
    f'{{"metric":"homepage","params_id":"{METRIC.params_id}","cohort":1,"day":"{TODAY}",'
    '"bits":"AAE="}'
)


def batch(report: str = REPORT, head: str = f'"version":1,{ID}') -> str:
    return f'{{{head},"reports":[{report}]}}'


OTHER_DIGITS = str(TODAY).translate({ord("1"): 0x0661, ord("2"): 0x0662})

CORPUS: dict[str, bytes] = {
    "empty": b"",
    "not json": b"{",
    "lone surrogate": b'"\\ud800"',
    "surrogate as metric": batch(REPORT.replace("homepage", "\\ud800")).encode(),
    "not utf-8": b'{"version":"\xff"}',
    "utf-16": batch().encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf" + batch().encode(),
    "NaN": batch(REPORT.replace('"cohort":1', '"cohort":NaN')).encode(),
    "Infinity": batch(REPORT.replace('"cohort":1', '"cohort":Infinity')).encode(),
    "true as a number": batch(REPORT.replace('"cohort":1', '"cohort":true')).encode(),
    "true as a version": batch(head=f'"version":true,{ID}').encode(),
    "1.0 as a version": batch(head=f'"version":1.0,{ID}').encode(),
    "a number of 5,000 digits": batch(
        REPORT.replace('"cohort":1', f'"cohort":{"9" * 5000}')
    ).encode(),
    "1e400": batch(REPORT.replace('"cohort":1', '"cohort":1e400')).encode(),
    "negative cohort": batch(REPORT.replace('"cohort":1', '"cohort":-1')).encode(),
    "duplicate key": batch(REPORT.replace('"cohort":1', '"cohort":1,"cohort":2')).encode(),
    "unknown field": batch(REPORT.replace('"cohort":1', '"cohort":1,"x":2')).encode(),
    "missing field": batch(REPORT.replace('"cohort":1,', "")).encode(),
    "no reports": batch(report="").encode(),
    "a report that is a list": batch(report="[]").encode(),
    "nested 100,000 deep": b"[" * 100_000,
    "nested objects": b'{"a":' * 50_000,
    "upper-case id": batch(head=f'"version":1,"batch_id":"{"A" * 32}"').encode(),
    "id with a newline": batch(head=f'"version":1,"batch_id":"{"0" * 32}\\n"').encode(),
    "bits not base64": batch(REPORT.replace("AAE=", "A*E=")).encode(),
    "bits with spare ones": batch(REPORT.replace("AAE=", "AAF=")).encode(),
    "bits url-safe": batch(REPORT.replace("AAE=", "-_E=")).encode(),
    "day of another calendar": batch(REPORT.replace(str(TODAY), "2026-02-30")).encode(),
    "day in other digits": batch(
        REPORT.replace(str(TODAY), str(TODAY).translate({ord("1"): 0x0661, ord("2"): 0x0662}))
    ).encode(),
    "10,001 reports": batch(report=",".join([REPORT] * 10_001)).encode(),
    "null": b"null",
    "a string": b'"x"',
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One collector for all of this file: what one test sends must not harm the next."""
    url = f"sqlite:///{tmp_path_factory.mktemp('hostile')}/collector.sqlite"
    with running_server([METRIC], Clock(), database=url) as made:
        yield made


def assert_problem(answer: httpx.Response, *statuses: int) -> dict[str, Any]:
    assert answer.status_code in statuses, answer.text[:300]
    assert answer.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = json.loads(answer.content)
    assert document["status"] == answer.status_code
    assert document["type"].startswith("urn:rappor-telemetry:problem:")
    assert document["detail"]
    return document


@pytest.mark.parametrize("name", CORPUS)
def test_a_bad_body_is_a_problem_document(server: Server, name: str) -> None:
    assert_problem(server.post_body(CORPUS[name]), 400, 413)


def test_the_corpus_differs_by_what_it_names(server: Server) -> None:
    assert server.post_body(batch().encode()).json()["results"] == [{"status": "accepted"}]


def test_other_content_types_and_encodings_are_refused(server: Server) -> None:
    body = batch().encode()
    for content_type in ("text/plain", "", "application/json; charset=latin-1", "x" * 5000):
        assert_problem(server.post_body(body, **{"content-type": content_type}), 415)
    for encoding in ("br", "gzip, gzip", "zstd", "deflate"):
        assert_problem(server.post_body(body, **{"content-encoding": encoding}), 415)


def test_bombs_and_broken_gzip_are_refused(server: Server) -> None:
    def post(body: bytes) -> httpx.Response:
        return server.post_body(body, **{"content-encoding": "gzip"})

    bomb = gzip.compress(b" " * (64 << 20))
    assert len(bomb) < server.settings.max_body_bytes
    assert_problem(post(bomb), 413)
    assert_problem(post(gzip.compress(bomb)), 400)  # what is inside is not inflated again
    good = gzip.compress(batch().encode())
    assert_problem(post(good[:-5]), 422)
    assert_problem(post(good + good), 422)
    assert_problem(post(zlib.compress(batch().encode())), 422)
    assert_problem(server.post_body(b" " * (server.settings.max_body_bytes + 1)), 413)


def test_bombs_of_small_values_cost_their_bytes(server: Server) -> None:
    """4 KB become 4 MB of text and, were it parsed, 90 MB of lists; many come at once."""
    lists = b"[" + b"[]," * 1_300_000 + b"[]]"
    bomb = gzip.compress(lists)
    assert len(lists) < server.settings.max_inflated_bytes
    tracemalloc.start()
    try:
        assert_problem(server.post_body(bomb, **{"content-encoding": "gzip"}), 400)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(lists)


def test_waiting_bodies_are_bounded_together(
    serving: ServerMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inflated, they wait for a thread; what was held while they arrived was a thousandth."""
    reading, let_go = threading.Event(), threading.Event()

    def read(*_: object, **__: object) -> None:
        reading.set()
        let_go.wait(30)

    monkeypatch.setattr("collector.domain.submission.decode_groups", read)
    bomb = gzip.compress(b" " * (600 << 10))
    with serving([METRIC], max_buffered_bytes=1 << 20) as server:
        first = threading.Thread(target=server.post_body, args=(bomb,), kwargs=GZIP)
        first.start()
        assert reading.wait(20)
        assert_problem(server.post_body(bomb, **GZIP), 503)
        let_go.set()
        first.join()


def test_a_body_without_length_is_bounded(server: Server) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(40):
            yield b" " * (64 << 10)

    try:
        answer = server.http.post(
            "/v1/reports", content=chunks(), headers={"content-type": "application/json"}
        )
    except httpx.WriteError:  # the server closed before everything was written
        return
    assert_problem(answer, 413)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1/metrics/..%2f..%2fetc%2fpasswd/aggregate",
        "/v1/metrics/%00/aggregate",
        "/v1/metrics/%ff%fe/aggregate",
        "/v1/metrics//aggregate",
        "/v1/metrics/" + "x" * 4000 + "/aggregate",
        "/v1/metrics/homepage/aggregate?from=1",
        "/v1/metrics/homepage/aggregate?from=2026-13-01",
        "/v1/metrics/homepage/aggregate?from=2026-11-21&to=2026-11-20",
        "/v1/metrics/homepage/aggregate?params_id=%27%20OR%201=1",
        "/v1/metrics/homepage/aggregate?form=2026-11-21",
        "/v1/metrics/homepage/aggregate?from=2026-11-21&from=2026-11-01",
        "/v1/audit?limit=-1",
        "/v1/audit?limit=99999999999999999999",
        "/v1/reports/%2e%2e/keys",
        "/docs",
        "/v1/reports/",
        "/healthz/",
    ],
)
def test_strange_paths_are_problem_documents(server: Server, path: str) -> None:
    assert_problem(server.http.get(path), 404, 405, 409, 422)


@pytest.mark.parametrize("day", ["2026-11-21T00", "tomorrow", "9999-12-31", "0000-00-00", "%00"])
def test_strange_days_cannot_be_closed(server: Server, day: str) -> None:
    assert_problem(server.http.post(f"/v1/days/{day}/close"), 422)


def _mutate(rng: random.Random, body: bytes) -> bytes:
    """Flip, cut, repeat or insert, at one to four places."""
    data = bytearray(body)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data)) if data else 0
        kind = rng.randrange(5)
        if kind == 0 and data:
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at : at + rng.randint(1, 20)]
        elif kind == 2:
            data[at:at] = data[at : at + rng.randint(1, 50)]
        elif kind == 3:
            data[at:at] = rng.choice(
                [b"\x00", b'"', b"{", b"\xff\xff\xff\xff", b"1e999", b"\\ud800"]
            )
        elif data:
            data[at] ^= 1 << rng.randrange(8)
    return bytes(data)


@pytest.mark.parametrize("mutations", MUTATIONS)
def test_mutated_bodies_never_break_the_collector(server: Server, mutations: int) -> None:
    """Bodies near to good ones: no 500, memory flat."""
    rng = random.Random(11)
    sender = Sender(rng)
    reports = sender.reports(METRIC, 20)
    good = sender.body(reports, b"g" * 16)
    forms = [
        (good, {"content-type": "application/json"}),
        (encode_binary(decode_json(good).ungrouped()), {"content-type": BINARY_CONTENT_TYPE}),
        (gzip.compress(good), {"content-type": "application/json", "content-encoding": "gzip"}),
        *((body, {"content-type": "application/json"}) for body in list(CORPUS.values())[:20]),
    ]
    process = psutil.Process()
    statuses: dict[int, int] = {}
    start = 0
    for number in range(mutations):
        body, headers = rng.choice(forms[:3]) if number % 4 else rng.choice(forms)
        answer = server.post_body(_mutate(rng, body), **headers)
        statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
        if number == mutations // 10:
            start = process.memory_info().rss
    assert statuses.keys() <= {200, 400, 409, 413, 415, 422}, statuses
    assert statuses[400] > mutations / 4
    assert process.memory_info().rss - start < MAX_GROWTH
    assert server.http.get("/readyz").status_code == 200


def _connect(server: Server) -> socket.socket:
    url = server.http.base_url
    return socket.create_connection((url.host, url.port), timeout=15)


def _slow_senders(server: Server, each: int) -> tuple[list[socket.socket], list[socket.socket]]:
    """Connections with half a head, and with half a body."""
    head = b"POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    half_heads = [_connect(server) for _ in range(each)]
    half_bodies = [_connect(server) for _ in range(each)]
    for one in half_heads:
        one.sendall(head)
    for one in half_bodies:
        one.sendall(head + b"Content-Length: 1000\r\n\r\n{")
    return half_heads, half_bodies


def test_slow_senders_hold_nobody_up(serving: ServerMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 connections, none of which ends before the others are served."""
    monkeypatch.setattr("rappor_server.http_protocol.HEAD_SECONDS", 120.0)
    with serving([METRIC], body_seconds=120.0) as server:
        half_heads, half_bodies = _slow_senders(server, 150)
        assert server.post(server.sender.reports(METRIC, 5)).status_code == 200
        for one in half_heads + half_bodies:
            one.close()


def test_slow_senders_are_cut_off(serving: ServerMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rappor_server.http_protocol.HEAD_SECONDS", 1.0)
    with serving([METRIC], body_seconds=1.0) as server:
        half_heads, half_bodies = _slow_senders(server, 10)
        assert all(one.recv(100) == b"" for one in half_heads)
        assert all(one.recv(100).startswith(b"HTTP/1.1 408") for one in half_bodies)
        for one in half_heads + half_bodies:
            one.close()


@pytest.mark.parametrize(
    ("request_bytes", "drip"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", b"\r\n"),
        (b"POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n", b"a"),
    ],
)
def test_what_drips_later_holds_no_connection(
    serving: ServerMaker, monkeypatch: pytest.MonkeyPatch, request_bytes: bytes, drip: bytes
) -> None:
    """Empty lines, or a body that was refused by its head: nobody waits for them for ever."""
    monkeypatch.setattr("rappor_server.http_protocol.HEAD_SECONDS", 1.0)
    with serving([METRIC]) as server, _connect(server) as one:
        one.sendall(request_bytes)
        assert one.recv(1000)[9:12] in (b"200", b"415")
        until(lambda: _hangs_up_on(one, drip), every=0.1)


def _hangs_up_on(connection: socket.socket, drip: bytes) -> bool:
    """Send a little; whether nobody is there to take it."""
    try:
        connection.sendall(drip)
    except (BrokenPipeError, ConnectionResetError):
        return True
    return False


def test_endless_headers_are_cut_off(server: Server) -> None:
    with _connect(server) as one:
        one.sendall(b"POST /v1/reports HTTP/1.1\r\nHost: x\r\n")
        received = b""
        try:
            for _ in range(200):
                one.sendall(b"X-Filler: " + b"a" * 4000 + b"\r\n")
            received = one.recv(200)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert received == b"" or received.startswith(b"HTTP/1.1 431")
    assert server.http.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /v1/reports HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/reports HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET http://[::1 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
    ],
)
def test_non_http_gets_400_or_nothing(server: Server, request_bytes: bytes) -> None:
    with _connect(server) as one:
        one.sendall(request_bytes)
        one.shutdown(socket.SHUT_WR)
        answer = one.recv(200)
    assert answer == b"" or answer[9:12] in (b"400", b"404", b"415")
    assert server.http.get("/healthz").status_code == 200


CHUNKED = (
    b"POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n"
)


@pytest.mark.parametrize("line", [b"X-Filler: " + b"a" * 4000 + b"\r\n", b"a" * 4000])
def test_endless_trailers_are_cut_off(server: Server, line: bytes) -> None:
    """Fields behind a body in chunks, or one field without an end: httptools keeps them all."""
    with _connect(server) as one:
        one.sendall(CHUNKED % (b"application/json", 1, b"{"))
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            one.sendall(line * 5_000)


def test_a_trailer_is_no_header(server: Server) -> None:
    body = batch().encode()
    sent = CHUNKED % (b"text/plain", len(body), body) + b"Content-Type: application/json\r\n\r\n"
    with _connect(server) as one:
        one.sendall(sent)
        assert one.recv(200)[9:12] == b"415"


@pytest.mark.parametrize("first", [b"GET http://[::1", b"CONNECT x:443"])
def test_a_target_that_is_none_is_no_defect(
    serving: ServerMaker, capsys: pytest.CaptureFixture[str], first: bytes
) -> None:
    """As the first of a connection; a line in the log for each would be the sender's to write."""
    with serving([METRIC]) as server:
        with _connect(server) as one:
            one.sendall(first + b" HTTP/1.1\r\nHost: x\r\n\r\n")
            assert one.recv(200)[9:12] == b"400"
        assert server.http.get("/healthz").status_code == 200
    assert "defect" not in capsys.readouterr().err


def test_overload_is_503_with_a_time(serving: ServerMaker) -> None:
    """More than may wait: refused with Retry-After, and nothing of it counted."""
    wide = make_metric(num_bits=8 * 4096)
    with serving([wide], max_queued_bytes=1 << 20) as server:
        reports = server.sender.reports(wide, 100)
        body = encode_binary(decode_json(server.sender.body(reports)).ungrouped())
        answers = _while_the_database_is_held(server, body, 24)
    refused = [answer for answer in answers if answer.status_code == 503]
    accepted = [answer for answer in answers if answer.status_code == 200]
    assert refused
    assert len(refused) + len(accepted) == len(answers)
    assert all(5 <= int(answer.headers["retry-after"]) <= 15 for answer in refused)
    assert refused[0].json()["type"].endswith("overloaded")


def _while_the_database_is_held(server: Server, body: bytes, count: int) -> list[httpx.Response]:
    """Send while another process writes, until the queue is full; then let the writer go on."""
    file = server.settings.database.removeprefix("sqlite:///")
    answers: list[httpx.Response] = []

    async def send_one(http: httpx.AsyncClient) -> None:
        own = body[:5] + os.urandom(16) + body[21:]
        headers = {"content-type": BINARY_CONTENT_TYPE}
        answers.append(await http.post("/v1/reports", content=own, headers=headers))

    async def send_all() -> None:
        async with httpx.AsyncClient(base_url=server.http.base_url, timeout=30) as http:
            await asyncio.gather(*(send_one(http) for _ in range(count)))

    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        sending = threading.Thread(target=lambda: asyncio.run(send_all()))
        sending.start()
        until(lambda: any(answer.status_code == 503 for answer in answers))
        other.execute("ROLLBACK")
    sending.join()
    return answers


def test_long_names_fill_neither_answers_nor_audit(server: Server) -> None:
    long = "\u00e9" * 2_000
    for method, path, status in (
        ("GET", f"/v1/metrics/{long}/aggregate", 404),
        ("GET", f"/v1/metrics/{long}/reports", 404),
        ("POST", f"/v1/metrics/{long}/retire", 404),
        ("GET", f"/v1/metrics/homepage/aggregate?params_id={long}", 422),
        ("POST", f"/v1/days/{TODAY}/close?metric={long}", 422),
    ):
        answer = server.http.request(method, path)
        assert answer.status_code == status, (method, path[:30])
        assert len(answer.content) < 1_000
    assert "\\u00e9" not in server.http.get("/v1/audit").text


def test_rates_are_limited_by_address_and_by_key(serving: ServerMaker) -> None:
    with serving([METRIC], max_requests_per_address=0.5) as server:
        answers = [server.post(server.sender.reports(METRIC, 1)) for _ in range(8)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 3
    assert "retry-after" in answers[-1].headers
