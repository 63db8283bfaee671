"""A client behind a relay, with a real collector: what each of them sees; nothing is lost."""

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from client_sdk import Client, Relay
from client_sdk.delivery.messages import read_body
from collector.domain.relay_keys import read_relay_keys, retire_relay_keys
from rappor_core.errors import ParameterError
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.ohttp.binary_http import SIZE_STEP, decode_request
from rappor_core.ohttp.encapsulation import OVERHEAD, KeyConfig, decapsulate, encode_keys
from tests.client.conftest import AT_ONCE
from tests.client.conftest import Clock as DeviceClock
from tests.collector.support import Clock, Server, running_server
from tests.relay_support import PassingRelay, new_keys

NOWHERE = "https://collector.invalid/prefix"
ROOT = Path(__file__).parents[2]


@dataclass
class Parts:
    """A collector with its file of keys, and a relay before it."""

    server: Server
    relay: PassingRelay
    keys: Path
    config: KeyConfig
    folder: Path
    metrics: MetricsFile

    def client(self, **changes: Any) -> Client:
        given: dict[str, Any] = {
            "state_dir": self.folder / "state",
            "collector": NOWHERE,
            "consent": True,
            "delivery": AT_ONCE,
            "clock": DeviceClock(),
            "relay": Relay(self.relay.url, encode_keys([self.config])),
        }
        return Client.open(self.metrics, **{**given, **changes})

    def plain(self, number: int) -> Any:
        """What the collector reads in a request that the relay saw."""
        private = {row.key_id: row for row in read_relay_keys(self.keys)}[1].private
        key = X25519PrivateKey.from_private_bytes(private)
        return decode_request(decapsulate({1: key}, self.relay.requests[number][2])[0])

    def counted(self) -> int:
        text = self.server.http.get("/metrics").text
        return int(float(re.search(r"^rappor_reports_accepted_t\S* (\S+)", text, re.M)[1]))


@pytest.fixture
def parts(tmp_path: Path, metrics: MetricsFile, monkeypatch: pytest.MonkeyPatch) -> Iterator[Parts]:
    """A collector, its relay, and clients that pause shortly between two tries."""
    monkeypatch.setattr("client_sdk.delivery.schedule.FLUSH_PAUSE", 0.05)
    file, (config,) = new_keys(tmp_path)
    database = f"sqlite:///{tmp_path}/collector.sqlite"
    known = list(metrics.metrics.values())
    with (
        running_server(known, Clock(), database=database, ohttp_keys=file) as server,
        PassingRelay(str(server.http.base_url)) as relay,
    ):
        yield Parts(server, relay, file, config, tmp_path, metrics)


def test_the_device_connects_to_the_relay_alone(parts, monkeypatch) -> None:
    looked_up: list[object] = []
    real = socket.getaddrinfo

    def noted(host: Any, *rest: Any) -> Any:
        looked_up.append(host)
        return real(host, *rest)

    with parts.client(key="rk_secret") as client:
        monkeypatch.setattr(socket, "getaddrinfo", noted)
        for _ in range(5):
            assert client.record("homepage", "a")
        assert client.record("theme", "dark")
        assert client.flush(20), client.last_error
    assert parts.counted() == 6
    assert {host for host in looked_up if host != b"127.0.0.1"} <= {"127.0.0.1"}


def test_the_relay_sees_fixed_head_and_size(parts) -> None:
    with parts.client(key="rk_secret") as client:
        for _ in range(30):
            client.record("homepage", "a")
        client.record("crashed", True)
        assert client.flush(20), client.last_error
    contents = (parts.plain(number).content for number in range(len(parts.relay.requests)))
    batches = [read_body(content) for content in contents]
    result = {tuple({one.metric for one in batch.groups}) for batch in batches}
    assert result == {("crashed",), ("homepage",)}  # cohorts of several metrics single a device out
    for number, (path, headers, body) in enumerate(parts.relay.requests):
        assert path == "/ohttp"
        assert {name: headers[name] for name in headers if name != "content-length"} == {
            "host": parts.relay.url.split("/")[2],
            "accept-encoding": "identity",
            "content-type": "message/ohttp-req",
        }
        assert (len(body) - OVERHEAD) % SIZE_STEP == 0
        assert b"rk_secret" not in body
        plain = parts.plain(number)
        assert plain[:4] == (b"POST", b"https", b"collector.invalid", b"/v1/reports")
        names = [name for name, _ in plain.fields]
        assert names == [b"authorization", b"content-type", b"content-encoding"]
    assert len({len(body) for _, _, body in parts.relay.requests}) == 1


def test_each_try_is_a_fresh_encapsulation(parts) -> None:
    parts.relay.lose_answers = 3
    with parts.client() as client:
        client.record("homepage", "a")
        assert client.flush(20), client.last_error
    bodies = [body for _, _, body in parts.relay.requests]
    assert len(bodies) >= 4
    assert len({body[7:39] for body in bodies}) == len(bodies)
    assert len({body[39:] for body in bodies}) == len(bodies)
    assert len({parts.plain(number).content for number in range(len(bodies))}) == 1
    assert parts.counted() == 1


def test_whatever_the_relay_says_the_batch_is_kept(parts) -> None:
    problem = {"Content-Type": "application/problem+json"}
    forged = b'{"type": "urn:rappor-telemetry:problem:not-a-batch", "status": %d}'
    statuses = (400, 401, 404, 409, 413, 415, 422, 429, 500, 503)
    sealed = {"Content-Type": "message/ohttp-res"}
    instead = [(200, sealed, bytes(1000)), (200, sealed, b""), (200, {}, b"{}")]
    instead += [(status, problem, forged % status) for status in statuses]
    parts.relay.instead = list(instead)
    with parts.client() as client:
        client.record("homepage", "a")
        assert client.flush(20), client.last_error
        assert client.inspect()["counters"] == {"accepted:homepage": 1}
    assert len(parts.relay.requests) == len(instead) + 1
    assert parts.counted() == 1


def test_the_collectors_own_refusal_is_final(parts) -> None:
    unknown = parts.metrics.metrics["homepage"]
    with parts.client() as client:
        parts.server.http.post(f"/v1/metrics/{unknown.name}/retire")
        client.record("homepage", "a")
        assert not client.flush(20)
        (counter,) = client.inspect()["counters"]
        assert counter.startswith("refused:homepage:")


def test_a_retired_key_keeps_reports_and_says_so(parts, monkeypatch) -> None:
    monkeypatch.setattr("collector.domain.relay_keys.RELOAD_SECONDS", 0.0)
    new_keys(parts.folder)
    retire_relay_keys(parts.keys, lambda row: row.key_id == 1, date(2026, 11, 21))
    with parts.client() as client:
        client.record("homepage", "a")
        assert not client.flush(3)
        assert "no longer has key 1" in client.last_error
        assert client.status.condition == "not_delivered"
    newer = read_relay_keys(parts.keys)[1].config
    with parts.client(relay=Relay(parts.relay.url, encode_keys([newer]))) as client:
        assert client.flush(20), client.last_error
    assert parts.counted() == 1


def test_without_its_relay_a_device_sends_nothing(parts) -> None:
    closed = Relay("http://127.0.0.1:1/ohttp", encode_keys([parts.config]))
    with parts.client(relay=closed, collector=str(parts.server.http.base_url)) as client:
        client.record("homepage", "a")
        assert not client.flush(2)
    assert parts.counted() == 0
    with parts.client() as client:
        assert client.flush(20)
    assert parts.counted() == 1


ADDRESS = "https://relay.example.net/ohttp"


@pytest.mark.parametrize(
    ("url", "keys", "reason"),
    [
        ("relay", b"", "is not an address"),
        (ADDRESS, b"", "rappor ohttp-keys create"),
        (ADDRESS, "/nowhere/relay.keys", "/nowhere/relay.keys"),
        (ADDRESS.replace("https", "http"), encode_keys([KeyConfig(1, bytes(32))]), "use https"),
    ],
)
def test_a_relay_that_is_none_is_named(url, keys, reason) -> None:
    with pytest.raises(ParameterError, match=reason):
        Relay(url, keys)


def test_keys_of_a_relay_are_bytes_or_a_file(parts) -> None:
    with pytest.raises(ParameterError, match="is not a Relay"):
        parts.client(relay=ADDRESS)
    path = parts.folder / "relay.keys"
    path.write_bytes(encode_keys([parts.config]))
    for given in (path, str(path), path.read_bytes()):
        relay = Relay(ADDRESS, given)
        assert relay.config == parts.config
        assert repr(relay) == "Relay('https://relay.example.net/ohttp', key 1)"


def test_without_a_relay_nothing_of_it_is_loaded() -> None:
    program = """
import sys
from client_sdk import Client, Delivery, Transport
import client_sdk.delivery.thread, client_sdk.session, client_sdk.delivery.schedule
print(sorted({"rappor_core.ohttp", "cryptography", "client_sdk.delivery.relay"} & set(sys.modules)))
sys.modules["cryptography"] = None
try:
    from client_sdk import Relay
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded, message = done.stdout.splitlines()
    assert loaded == "[]"
    assert message.endswith("pip install 'rappor-telemetry[relay]'")
