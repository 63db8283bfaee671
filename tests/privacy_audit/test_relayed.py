"""`rappor audit --relay`: an honest client passes, and faults planted in its sending are found.

No chance in it: with the same randomness two lives must show the same.
"""

from __future__ import annotations

import http.client
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from client_sdk.delivery import relay as sending
from client_sdk.delivery.queue import ReportQueue
from client_sdk.delivery.transport import Transport
from ohttp.encapsulation import REQUEST_TYPE, encapsulate
from privacy_audit.audit import AuditOptions, audit
from privacy_audit.black_box import relayed
from privacy_audit.errors import AuditError
from privacy_audit.promises import PROMISES, promise_of
from privacy_audit.report import DEFAULT_METRICS
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.loading import load_metrics
from tests.metric_texts import declaration
from tests.privacy_audit.faults import METRICS

OUTSIDE, OPENS, FRESH, ALONE = "values do not show", "opens with", "of its own", "nothing past it"
FILE = parse_metrics(
    METRICS + declaration("crashed", "boolean", prob_f=0.5, prob_p=0.5, prob_q=0.75)
)
Found = dict[str, str]


@pytest.fixture(autouse=True)
def two_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relayed, "PAIRS", 2)
    monkeypatch.setattr(relayed, "SECONDS", 2.0)


def broken() -> Iterator[str]:
    for check in relayed.relay_checks(FILE):
        assert promise_of(check) in PROMISES
        if check.broken(1e-9):
            yield check.what


def assert_found(word: str) -> None:
    assert any(word in what for what in broken())


def test_an_honest_client_behind_a_relay_passes() -> None:
    assert list(broken()) == []


@pytest.mark.long
def test_an_honest_client_passes_with_every_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relayed, "SECONDS", 20.0)
    options = AuditOptions(trials=4_000, processes=0, installations=0, boxes=(), relay=True)
    result = audit(load_metrics(DEFAULT_METRICS), options)
    assert {check.box for check in result.checks} == {relayed.BOX}
    assert result.broken == ()
    assert result.untested == ()


def test_a_program_is_not_audited_behind_a_relay() -> None:
    with pytest.raises(AuditError, match="SDK alone"):
        audit(FILE, AuditOptions(relay=True), command="false")


def changed_head(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Have headers of a request follow from the body that it hides."""
    first = sending.RelayTransport.post
    sealed = Transport._try

    def post(self: Any, body: bytes, *rest: Any, **named: Any) -> Any:
        self.plain = body
        return first(self, body, *rest, **named)

    def tried(self: Any, body: bytes, headers: dict[str, str], deadline: float) -> Any:
        return sealed(self, *change(self.plain, body, headers), deadline)

    monkeypatch.setattr(sending.RelayTransport, "post", post)
    monkeypatch.setattr(Transport, "_try", tried)


def test_a_header_that_follows_from_reports_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    changed_head(
        monkeypatch,
        lambda plain, body, headers: (body, {**headers, "ETag": str(zlib.crc32(plain))}),
    )
    assert_found(OUTSIDE)


@pytest.mark.long
def test_a_size_that_follows_from_reports_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Padding left out, and bodies compressed after it was added."""
    first = sending.encode_request

    def unpadded(request: Any, pad_to: int) -> bytes:
        shorter = request._replace(content=request.content[:-1] + zlib.compress(request.content))
        return first(shorter, 1)

    monkeypatch.setattr(sending, "encode_request", unpadded)
    assert_found(OUTSIDE)


def test_one_more_request_for_some_values_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    first = sending.RelayTransport.post

    def twice(self: Any, body: bytes, *rest: Any, **named: Any) -> Any:
        if zlib.crc32(body) % 2:
            first(self, body, *rest, **named)
        return first(self, body, *rest, **named)

    monkeypatch.setattr(sending.RelayTransport, "post", twice)
    assert_found(OUTSIDE)


def test_a_key_pair_for_life_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = X25519PrivateKey.generate()
    monkeypatch.setattr(
        sending, "encapsulate", lambda config, request: encapsulate(config, request, lambda: pair)
    )
    assert_found(FRESH)


@pytest.mark.long
def test_a_body_in_clear_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def clear(config: Any, request: bytes) -> Any:
        sealed, exchange = encapsulate(config, request)
        return sealed[:39] + request, exchange

    monkeypatch.setattr(sending, "encapsulate", clear)
    assert_found(OPENS)


def test_two_metrics_in_a_batch_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    together = ReportQueue._partition

    def mixed(self: Any, rows: Any) -> Any:
        self._delivery = self._delivery.replace(relay=None, isolate_metrics=False)
        return together(self, rows)

    monkeypatch.setattr(ReportQueue, "_partition", mixed)
    assert_found(OPENS)


def test_a_way_past_the_relay_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a refusal of the relay the collector is asked itself."""
    made, first = sending.Relay.transport, sending.RelayTransport._refusal
    address = []

    def transport(self: Any, collector: str, *rest: Any, **named: Any) -> Any:
        address.append(collector.removeprefix("http://"))
        return made(self, collector, *rest, **named)

    def direct(self: Any, *rest: Any) -> Any:
        connection = http.client.HTTPConnection(address[-1], timeout=5)
        connection.request("POST", "/v1/reports", b"", {"Content-Type": REQUEST_TYPE})
        connection.getresponse().read()
        connection.close()
        return first(self, *rest)

    monkeypatch.setattr(sending.Relay, "transport", transport)
    monkeypatch.setattr(sending.RelayTransport, "_refusal", direct)
    assert_found(ALONE)
