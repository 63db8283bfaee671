"""Hostile input over real HTTP: named 4xx problem documents, never a 500, memory bounded."""

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
from contextlib import closing, suppress
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
MUTATIONS = [300, pytest.param(10_000, marks=pytest.mark.long)]
MAX_GROWTH = 50 << 20

ID = '"batch_id":"' + "0" * 32 + '"'
REPORT = (
    f'{{"metric":"homepage","params_id":"{METRIC.params_id}","cohort":1,"day":"{TODAY}",'
    '"bits":"AAE="}'
)


def batch(report: str = REPORT, head: str = f'"version":1,{ID}') -> str:
    return f'{{{head},"reports":[{report}]}}'


CORPUS: dict[str, bytes] = {
    "empty": b"",
    "not json": b"{",
    "lone surrogate": b'"\\ud800"',
    "not utf-8": b'{"version":"\xff"}',
    "NaN": batch(REPORT.replace('"cohort":1', '"cohort":NaN')).encode(),
    "a number of 5,000 digits": batch(
        REPORT.replace('"cohort":1', f'"cohort":{"9" * 5000}')
    ).encode(),
    "duplicate key": batch(REPORT.replace('"cohort":1', '"cohort":1,"cohort":2')).encode(),
    "missing field": batch(REPORT.replace('"cohort":1,', "")).encode(),
    "no reports": batch(report="").encode(),
    "nested 100,000 deep": b"[" * 100_000,
    "bits not base64": batch(REPORT.replace("AAE=", "A*E=")).encode(),
    "day of another calendar": batch(REPORT.replace(str(TODAY), "2026-02-30")).encode(),
    "10,001 reports": batch(report=",".join([REPORT] * 10_001)).encode(),
    "null": b"null",
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
        "/v1/metrics/%00/aggregate",
        "/v1/metrics/%ff%fe/aggregate",
        "/v1/metrics/" + "x" * 4000 + "/aggregate",
        "/v1/metrics/homepage/aggregate?from=2026-13-01",
        "/v1/metrics/homepage/aggregate?from=2026-11-21&to=2026-11-20",
        "/v1/metrics/homepage/aggregate?params_id=%27%20OR%201=1",
        "/v1/metrics/homepage/aggregate?from=2026-11-21&from=2026-11-01",
        "/v1/audit?limit=-1",
        "/v1/reports/%2e%2e/keys",
        "/docs",
    ],
)
def test_strange_paths_are_problem_documents(server: Server, path: str) -> None:
    assert_problem(server.http.get(path), 404, 405, 409, 422)


@pytest.mark.parametrize("day", ["tomorrow", "9999-12-31", "%00"])
def test_strange_days_cannot_be_closed(server: Server, day: str) -> None:
    assert_problem(server.http.post(f"/v1/days/{day}/close"), 422)


def _mutate(rng: random.Random, body: bytes) -> bytes:
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


def test_slow_bodies_are_cut_off(serving: ServerMaker) -> None:
    """Slow heads are the proxy's."""
    head = b"POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with serving([METRIC], body_seconds=1.0) as server:
        assert answer_to(server, head + b"Content-Length: 9\r\n\r\n{")[:12] == b"HTTP/1.1 408"


def answer_to(server: Server, sent: bytes) -> bytes:
    """The first bytes of the answer to raw bytes over a new connection; b"" if it is closed."""
    address = (server.http.base_url.host, server.http.base_url.port)
    with socket.create_connection(address, timeout=15) as one:
        with suppress(OSError):  # closed before everything was written
            one.sendall(sent)
        with suppress(ConnectionResetError):
            return one.recv(1 << 16)
    return b""


def raw(body: bytes, *headers: bytes) -> bytes:
    length = b"Content-Length: %d" % len(body)
    lines = (b"POST /v1/reports HTTP/1.1", b"Content-Type: application/json", length, *headers)
    return b"\r\n".join([*lines, b"", body])


@pytest.mark.parametrize(
    ("headers", "statuses"),
    [
        ([b"Host: x", b"A: " + b"a" * (70 << 10)], (b"400", b"431")),
        ([b"Host: x", *[b"A: " + b"a" * 8_000] * 25], (b"400", b"431")),  # in one read
        ([b"Host: x", b"Authorization: Bearer a", b"Authorization: Bearer b"], (b"400",)),
        ([b"Host: x", b"Host: y"], (b"400",)),
        ([], (b"400",)),  # no Host
    ],
)
def test_heads_out_of_bounds_are_refused(server, headers, statuses) -> None:
    answer = answer_to(server, raw(b"{}", *headers))
    assert answer[9:12] in (*statuses, b"")


@pytest.mark.parametrize("protocol", [b"websocket", b"h2c"])
def test_an_upgrade_is_ignored_and_the_body_read(server: Server, protocol: bytes) -> None:
    body = server.sender.body(server.sender.reports(METRIC, 2))
    upgrade = (b"Host: x", b"Connection: Upgrade", b"Upgrade: " + protocol)
    answer = answer_to(server, raw(body, *upgrade))
    assert answer.startswith(b"HTTP/1.1 200")


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
    """Send while another process writes, until the queue is full; then let the writer continue."""
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
