"""What makes a device let go of a batch: the collector's own word, and nobody else's."""

import json
from hashlib import sha256
from typing import Any

import pytest

from client_sdk import Delivery
from client_sdk.delivery.messages import FINAL, PROBLEM_TYPE, PROBLEM_URN
from client_sdk.testing import MemoryCollector
from collector.app import RULES
from rappor_core.metrics.file import parse_metrics
from rappor_core.wire.report import Batch
from rappor_server.problems import PROBLEM_JSON, URN
from tests.metric_texts import declaration
from tests.waiting import flush_in_vain

WHEN_FLUSHED = Delivery(mean_delay=3600.0, first_pause=0.05)
HTML = b"<html><body><h1>Bad request</h1></body></html>"
GATEWAYS = {"Content-Type": "text/html"}


def problem(status: int, /, body: bytes = b"", **changes: object) -> tuple[dict[str, str], bytes]:
    """The collector's word about a body that it has read."""
    document = {"type": f"{PROBLEM_URN}x", "title": "no", "status": status, "detail": "no"}
    document["body_sha256"] = sha256(body).hexdigest()
    said = {name: word for name, word in {**document, **changes}.items() if word is not None}
    return {"Content-Type": PROBLEM_TYPE}, json.dumps(said).encode()


def test_both_sides_mean_the_same_problem_documents() -> None:
    assert (PROBLEM_TYPE, PROBLEM_URN) == (PROBLEM_JSON, URN)
    assert {rule.status for rule in RULES} >= FINAL


@pytest.mark.parametrize("status", sorted(FINAL - {413}))
def test_the_collectors_own_word_ends_it(open_client, collector, status) -> None:
    collector.answer = lambda _: (status, *problem(status, collector.requests[-1][1]))
    client = open_client(delivery=WHEN_FLUSHED)
    assert client.record("homepage", "a")
    assert not client.flush(20)  # nothing waits any more, and nothing was delivered
    assert client.last_error == f"dropped:http_{status}"
    assert client.inspect()["counters"][f"dropped:http_{status}"] == 1
    assert client.status.condition == "active"


@pytest.mark.parametrize("answer", [problem(413, body_sha256=None), (GATEWAYS, HTML)])
def test_a_batch_too_large_goes_on_in_parts(open_client, collector, answer) -> None:
    collector.answer = lambda batch: (413, *answer) if len(batch.reports) > 9 else None
    client = open_client(delivery=WHEN_FLUSHED)
    for _ in range(100):
        assert client.record("homepage", "a")
    assert client.record("theme", "dark")
    assert client.flush(20)
    assert collector.counted() == {"homepage": 100, "theme": 1}
    assert len({body for _, body in collector.requests}) == len(collector.requests)
    counters = client.inspect()["counters"]
    assert counters["accepted:homepage"] == 100
    assert not [name for name in counters if name.startswith("dropped")]


@pytest.mark.parametrize("restart", [True, False])
def test_a_batch_of_before_is_split_by_its_collector(open_client, collector, *, restart) -> None:
    collector.answer = lambda _: (503, *problem(503, body_sha256=None))
    client = open_client(delivery=WHEN_FLUSHED)
    for _ in range(50):
        assert client.record("homepage", "a")
    flush_in_vain(client, lambda: client.inspect()["in_batches"] == 50)
    if restart:
        client.close()
        client = open_client(delivery=WHEN_FLUSHED)

    def too_many(batch: Batch) -> Any:
        if len(batch.reports) <= 20:
            return None
        return 413, *problem(413, collector.requests[-1][1], max_reports=20)

    collector.answer = too_many
    assert client.flush(20)
    assert collector.counted() == {"homepage": 50}
    assert not [name for name in client.inspect()["counters"] if name.startswith("dropped")]


def test_no_batch_is_larger_than_proxies_pass(open_client) -> None:
    text = declaration("wide", "string", num_bits=8192, num_hashes=2, num_cohorts=4, prob_f=0.5,
                       prob_p=0.5, prob_q=0.75, max_memoized_values=3,
                       max_reports_per_period=1000, fallback="other")  # fmt: skip
    metrics = parse_metrics(text)
    with MemoryCollector(metrics.metrics) as collector:
        client = open_client(metrics=metrics, delivery=WHEN_FLUSHED, collector=collector.url)
        for _ in range(100):
            assert client.record("wide", "a")
        assert client.flush(20), client.last_error
    assert collector.counted() == {"wide": 100}
    assert len(collector.requests) == 2
    assert all(len(body) <= 64 << 10 for _, body in collector.requests)


@pytest.mark.parametrize("body", [None, b"other bytes"])
def test_a_batch_that_may_be_counted_is_not_split(open_client, collector, body) -> None:
    """Its answer was lost; a 413 for another body, or before it was read, is no word about it."""
    collector.lose_answers = 1_000
    client = open_client(delivery=WHEN_FLUSHED)
    for _ in range(10):
        assert client.record("homepage", "a")
    flush_in_vain(client, lambda: client.last_error != "")
    collector.lose_answers = 0
    more = {"body_sha256": None} if body is None else {}
    collector.answer = lambda _: (413, *problem(413, body or b"", **more))
    flush_in_vain(client, lambda: "413" in client.last_error)
    collector.answer = None
    assert client.flush(20)
    assert collector.counted() == {"homepage": 10}
    assert collector.duplicates >= 1
