"""One batch, one answer, over real HTTP on loopback."""

import json
from datetime import date

import pytest

from client_sdk.delivery.addresses import split_url
from client_sdk.delivery.transport import Transport
from client_sdk.errors import TransportError
from client_sdk.randomization.metric_encoder import Encoder
from client_sdk.testing import FixedRandomness
from rappor_core.errors import ParameterError
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.wire.report import Batch, make_batch
from tests.client.test_refusals import problem

DAY = date(2026, 11, 21)


@pytest.fixture
def batch(metrics: MetricsFile) -> Batch:
    encoder = Encoder(metrics.metrics, bytes(32), FixedRandomness())
    reports = [encoder.encode("homepage", "example.org", DAY) for _ in range(3)]
    return make_batch(b"0123456789abcdef", reports)


@pytest.mark.parametrize(
    ("status", "headers", "retry", "wait"),
    [
        (503, {"Retry-After": "6"}, True, 6.0),
        (429, {"Retry-After": "soon"}, True, None),
        (429, {"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}, True, 0.0),
        (500, {}, True, None),
        (408, {}, True, None),
        (401, {"Retry-After": "6"}, True, None),
        (302, {"Location": "/"}, True, None),
        (400, {}, False, None),
    ],
)
def test_a_status_says_whether_to_try_again(collector, batch, status, headers, retry, wait) -> None:
    def refuse(_: Batch) -> tuple[int, dict[str, str], bytes]:
        fields, body = problem(status, collector.requests[-1][1])
        return status, fields | headers, body

    collector.answer = refuse
    with Transport(collector.url) as transport, pytest.raises(TransportError) as failed:
        transport.send(batch)
    assert (failed.value.reason, failed.value.retry) == (f"http_{status}", retry)
    assert failed.value.retry_after == wait


@pytest.mark.parametrize(
    "change",
    [
        {"batch_id": "0" * 32},
        {"version": 2},
        {"results": [{"status": "accepted"}]},
        {"results": [{"status": "maybe"}] * 3},
        {"results": [{"status": "refused"}] * 3},
        {"results": None},
        {"results": [3, 4, 5]},
    ],
)
def test_a_200_without_the_answer_keeps_the_batch(collector, batch, change) -> None:
    answer = {"version": 1, "batch_id": batch.batch_id, "results": [{"status": "accepted"}] * 3}
    body = json.dumps(answer | change).encode()
    collector.answer = lambda _: (200, {}, body)
    with Transport(collector.url) as transport, pytest.raises(TransportError) as failed:
        transport.send(batch)
    assert (failed.value.reason, failed.value.retry) == ("strange_answer", True)


def test_a_kept_connection_that_closed_is_replaced(collector, batch) -> None:
    with Transport(collector.url) as transport:
        transport.send(batch)
        collector.lose_answers = 1  # processed, then hung up: the second try hears "duplicate"
        assert transport.send(Batch("ab" * 16, batch.reports)).duplicate
    assert len(collector.reports) == 6


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://h", ("http", "h", "")),
        ("https://h:8443/a/b/", ("https", "h:8443", "/a/b")),
        ("http://[::1]:80/", ("http", "[::1]:80", "")),
        ("http://my_host.lan.:1", ("http", "my_host.lan.:1", "")),
        ("https://bücher.example:8/x", ("https", "xn--bcher-kva.example:8", "/x")),
    ],
)
def test_addresses(url, parts) -> None:
    assert split_url(url) == parts


NOT_ADDRESSES = ["", "h:80", "ftp://h", "http://", "http://u@h", "http://h/?a=1"]
NOT_ADDRESSES += ["http://h:abc", "http://h:", "http://h:0", "http://h:65536", "http://h:\u0661"]
NOT_ADDRESSES += [
    "http://:80",
    "http://a..b",
    "http://.a",
    "http://a b",
    "http://a!b",
    "http://-:x",
]
NOT_ADDRESSES += ["http://[::1", "http://[::1]8", "http://[no]", "http://::1", "http://h/ü"]
NOT_ADDRESSES += [f"http://{'a' * 64}.org", f"http://{'a.' * 127}org", "http://ü..b"]


@pytest.mark.parametrize("url", NOT_ADDRESSES)
def test_an_impossible_address_is_refused_at_once(url) -> None:
    with pytest.raises(ParameterError, match="is not an address"):
        Transport(url)


@pytest.mark.parametrize("url", ["http://10.0.2.2", "http://127.example.org", "http://[::2]:1"])
def test_a_key_does_not_travel_in_clear_text(url) -> None:
    with pytest.raises(ParameterError, match="anyone on the way can read the key"):
        Transport(url, "rk_report_private")
    Transport(url)
    Transport(url, "rk_report_private", plain_key=True)


@pytest.mark.parametrize("url", ["http://localhost:1", "http://127.9.9.9", "http://[::1]:1"])
def test_loopback_is_no_way_for_others(url) -> None:
    Transport(url, "rk_report_private")
