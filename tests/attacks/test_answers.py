"""Small bodies that ask for huge answers, and connections that never read theirs."""

from __future__ import annotations

import gzip
import json
import re
import time

import pytest

from rappor_core.wire.binary import encode_binary
from rappor_core.wire.report import BINARY_CONTENT_TYPE, Report, make_batch
from tests.attacks.support import Target, request, target, today
from tests.collector.support import ServerMaker, make_metric
from tests.waiting import until

METRIC = make_metric()
CONNECTIONS = 150
MAX_GROWTH = 150 << 20  # 737 MB before
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


def _wanted(batch_id: bytes, *headers: str) -> bytes:
    """A request for half a megabyte."""
    packed = "Content-Encoding: gzip"
    return request(tiny_body(batch_id), packed, *headers, content_type=BINARY_CONTENT_TYPE)


def _unsent(collector: Target) -> float:
    found = re.search(r"^rappor_unsent_bytes (\S+)$", collector.http.get("/metrics").text, re.M)
    assert found is not None
    return float(found[1])


@pytest.mark.long
def test_connections_that_never_read_are_cut_off(sqlite_url: str) -> None:
    """150 of them, each with an answer of half a megabyte to come."""
    wanted = _wanted(b"b" * 16)
    with target(sqlite_url, [METRIC], answer_seconds=3) as collector:
        before = collector.rss
        silent = [collector.connect(receive_bytes=4096) for _ in range(CONNECTIONS)]
        for one in silent:
            one.sendall(wanted)
        most, peak = 0.0, 0

        def all_are_cut_off() -> bool:
            nonlocal most, peak
            unsent = _unsent(collector)
            most, peak = max(most, unsent), max(peak, collector.rss)
            return most > 0 == unsent

        until(all_are_cut_off, 60, every=0.2)
        assert collector.http.get("/readyz").status_code == 200
        print(f"\n{CONNECTIONS} that never read: {before >> 20} MB before, {peak >> 20} at most, ")
        print(f"{most:,.0f} bytes unsent at most, {_unsent(collector):,.0f} at the end")
        assert 0 < most <= CONNECTIONS * MAX_ANSWER
        assert _unsent(collector) == 0
        assert peak - before < MAX_GROWTH
        assert all(_is_cut_off(one) for one in silent)


def _is_cut_off(connection: object) -> bool:
    """Read what the kernel still holds; whether the connection ends before the answer does."""
    received = 0
    try:
        while chunk := connection.recv(1 << 20):  # type: ignore[attr-defined]
            received += len(chunk)
    except ConnectionResetError:
        return True
    return received < MAX_ANSWER


def test_the_longest_wait_ends_and_slow_readers_stay(sqlite_url: str) -> None:
    """The bound of all together holds although none has waited for too long; slow is not silent:
    an answer that is read in time is whole."""
    with target(sqlite_url, [METRIC], max_unsent_bytes=1 << 20, answer_seconds=60) as collector:
        silent = [collector.connect(receive_bytes=4096) for _ in range(12)]
        for one in silent:
            one.sendall(_wanted(b"d" * 16))
            time.sleep(0.1)  # who came first has waited longest
        assert 0 < _unsent(collector) <= 1 << 20
        assert _is_cut_off(silent[0])
        for one in silent:
            one.close()
        with collector.connect(receive_bytes=4096) as one:
            one.sendall(_wanted(b"e" * 16, "Connection: close"))
            received = b""
            while chunk := one.recv(32 << 10):
                received += chunk
                time.sleep(0.02)  # slow is the subject
        assert len(json.loads(received.partition(b"\r\n\r\n")[2])["results"]) == 10_000
