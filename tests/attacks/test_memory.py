"""Bodies that cannot be read, and huge answers: the collector stays small (`pytest -s`)."""

import gzip
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from rappor_core.wire.binary import encode_binary
from rappor_core.wire.report import BINARY_CONTENT_TYPE, Report, make_batch
from tests.attacks.support import target, today
from tests.collector.support import Sender, ServerMaker, make_metric

METRIC = make_metric()
MAX_BYTES = 300 << 20
SENDERS = 8
GZIP = {"content-encoding": "gzip"}


def hostile_bodies() -> list[tuple[bytes, dict[str, str]]]:
    """Bodies over 64 KiB that are not batches, each for another reason, and one that conflicts."""
    sender = Sender(random.Random(5))
    good = sender.body(sender.reports(METRIC, 7_000, today()), b"c" * 16)
    other = sender.body(sender.reports(METRIC, 7_000, today()), b"c" * 16)
    binary = encode_binary(make_batch(b"b" * 16, sender.reports(METRIC, 9_000, today())))
    json_type = {"content-type": "application/json"}
    binary_type = {"content-type": BINARY_CONTENT_TYPE}
    wide = b'{"version":1,"batch_id":"' + b"0" * 32 + b'","reports":[' + b"{}," * 300_000 + b"{}]}"
    return [
        (good, json_type),
        (other, json_type),  # 409: the same id with another body
        (good[:-2], json_type),
        (good.replace(b'"cohort":1', b'"cohort":x'), json_type),
        (good.replace(b'"bits":"', b'"bits":"\xff'), json_type),
        (b"[" + b"[]," * 300_000 + b"[]]", json_type),
        (gzip.compress(b" " * (4 << 20)), json_type | GZIP),
        (gzip.compress(wide + b" " * (3 << 20)), json_type | GZIP),
        (gzip.compress(good[:-2] * 3), json_type | GZIP),
        (binary[:-1], binary_type),
        (binary + b"x", binary_type),
    ]


def attack(port: int, count: int) -> dict[int, int]:
    """Send `count` hostile bodies from several connections; how often each status came."""
    bodies = hostile_bodies()

    def send(first: int) -> Iterator[int]:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            for number in range(first, count, SENDERS):
                body, headers = bodies[number % len(bodies)]
                yield http.post("/v1/reports", content=body, headers=headers).status_code

    statuses: dict[int, int] = {}
    with ThreadPoolExecutor(SENDERS) as pool:
        for found in pool.map(lambda first: list(send(first)), range(SENDERS)):
            for status in found:
                statuses[status] = statuses.get(status, 0) + 1
    return statuses


@pytest.mark.long
@pytest.mark.parametrize("count", [66, 2_400])
def test_bodies_that_cannot_be_read_do_not_stay(sqlite_url: str, count: int) -> None:
    """Without the mend, 240 of them left 2.5 GB until the next full garbage collection."""
    with target(sqlite_url, [METRIC], max_batch_reports=10_000) as collector:
        before = collector.rss
        statuses = attack(collector.port, count)
        after = collector.rss
    print(f"\n{count} hostile bodies: {before >> 20} MB before, {after >> 20} after, {statuses}")
    assert statuses.keys() <= {200, 400, 409, 503}
    assert statuses[400] > count / 2
    assert after < MAX_BYTES


MAX_ANSWER = 600 << 10  # of 10,000 results; 4.5 MB before


def tiny_body(batch_id: bytes) -> bytes:
    """10,000 reports of a metric with the longest name there is, in some 120 bytes of gzip."""
    report = Report("\x01" * 128, "0" * 32, 0, today(), b"\0")
    return gzip.compress(encode_binary(make_batch(batch_id, [report] * 10_000)), 9)


def test_a_tiny_body_gets_no_huge_answer(serving: ServerMaker) -> None:
    body = tiny_body(b"a" * 16)
    headers = {"content-type": BINARY_CONTENT_TYPE, "content-encoding": "gzip"}
    with serving([METRIC]) as server:
        answer = server.post_body(body, **headers)
    results = answer.json()["results"]
    print(f"\n{len(body)} bytes sent, {len(answer.content):,} answered")
    assert len(body) < 200
    assert len(answer.content) < MAX_ANSWER
    assert "was declared here" in results[0]["detail"]
    assert results[1:] == [{"status": "refused", "reason": "unknown_metric"}] * 9_999


def test_details_are_told_once_and_so_many(serving: ServerMaker) -> None:
    with serving([METRIC]) as server:
        sender = server.sender
        reports = [sender.report(METRIC, cohort=cohort) for cohort in (4, 4, 5, 4)]
        results = server.post(reports).json()["results"]
        assert [bool(result.get("detail")) for result in results] == [True, False, True, False]
        others = [sender.report(METRIC, metric=f"m{i}") for i in range(1_000)]
        results = server.post(others).json()["results"]
    assert sum("detail" in result for result in results) == 32
    assert {result["reason"] for result in results} == {"unknown_metric"}
