"""Small bodies that ask for huge answers."""

import gzip

from rappor_core.wire.binary import encode_binary
from rappor_core.wire.report import BINARY_CONTENT_TYPE, Report, make_batch
from tests.attacks.support import today
from tests.collector.support import ServerMaker, make_metric

METRIC = make_metric()
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
