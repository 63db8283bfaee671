"""Check a client behind a relay: what the relay sees of two lives differs in nothing.

Whole clients with the same randomness live lives of different values. The relay is the audit's: it
opens each request with the collector's key, as only the collector could, and answers as it would.
Encapsulations themselves differ, since their keys come from the system.
"""

from __future__ import annotations

import json
import logging
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from client_sdk import Client, Delivery
from client_sdk.delivery.batches import read_body
from client_sdk.delivery.relay import Relay
from client_sdk.testing import FixedRandomness, MemoryCollector
from ohttp.binary_http import SIZE_STEP, BinaryResponse, decode_request, encode_response
from ohttp.encapsulation import RESPONSE_TYPE, Exchange, decapsulate
from ohttp.errors import EncapsulationError
from ohttp.hpke import PUBLIC_KEY_BYTES
from ohttp.key_config import KeyConfig, encode_keys
from privacy_audit.black_box.checks import Check, exact
from privacy_audit.black_box.crowd_lives import MEAN_DELAY, crowd_file, lives
from privacy_audit.black_box.power import Smallest, one_of
from privacy_audit.black_box.witness import Sitting
from privacy_audit.black_box.witnessed_client import until_idle
from rappor_core.errors import WireFormatError
from rappor_core.metrics.metrics_file import MetricsFile

BOX: Final = "relay"
PAIRS = 4  # of lives
SECONDS = 10.0  # to send
KEY_ID = 7
HEAD = 7  # bytes of a request before the encapsulated key: its number and suite
CLEAR = HEAD + PUBLIC_KEY_BYTES


class Outside(NamedTuple):
    """All that a relay sees of a request, but for the sealed bytes. asked: whether the app had
    asked to send."""

    asked: bool
    line: str
    headers: tuple[tuple[str, str], ...]
    head: bytes
    size: int


class Lived(NamedTuple):
    """What was seen of one device that sent through a relay.

    outside: of each run of its process, what is outside of the encryption.  sealed: all
    encrypted requests.  direct: how many went to the collector itself.
    strange: what was in requests that held neither a batch of one metric nor of two that are
    linked.
    """

    outside: list[list[Outside]]
    sealed: list[bytes]
    direct: int
    strange: list[str]


class AuditRelay(ThreadingHTTPServer):
    """A relay and the collector behind it on a free loopback port; use it in a `with` block."""

    daemon_threads = True

    def __init__(self, linked: set[frozenset[str]]) -> None:
        """Listen; requests are answered within the block. linked: metrics that travel together."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self._private = X25519PrivateKey.generate()
        self._linked = linked
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,))
        self.collector = MemoryCollector()
        self.asked = False
        self.outside: list[Outside] = []
        self.sealed: list[bytes] = []
        self.strange: list[str] = []
        self.troubles: list[int] = []

    @property
    def relay(self) -> Relay:
        """What an app is given."""
        public = self._private.public_key().public_bytes_raw()
        url = f"http://127.0.0.1:{self.server_address[1]}/ohttp"
        return Relay(url, encode_keys([KeyConfig(KEY_ID, public)]))

    def answer(self, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer to a request."""
        try:
            plain, exchange = decapsulate({KEY_ID: self._private}, body)
            request = decode_request(plain)
            sent = read_body(request.content, json=False)
        except (EncapsulationError, WireFormatError) as error:
            self.strange.append(f"a request cannot be opened: {error}")
            return 400, b""
        metrics = frozenset(group.metric for group in sent.groups)
        if len(metrics) != 1 and metrics not in self._linked:
            self.strange.append(f"{len(metrics)} metrics in a batch")
        status, document = self.collector.take(sent.ungrouped(), request.content)
        return 200, _sealed(exchange, status, json.dumps(document).encode())

    def handle_error(self, request: object, client_address: object) -> None:
        """A device that hangs up is no news."""

    def __enter__(self) -> AuditRelay:
        """Serve."""
        self.collector.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop, and free the ports."""
        self.shutdown()
        self._thread.join()
        self.server_close()
        self.collector.__exit__()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: AuditRelay

    def do_POST(self) -> None:
        relay = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        here = f"127.0.0.1:{relay.server_address[1]}"
        headers = tuple((k, "RELAY" if v == here else v) for k, v in self.headers.items())
        seen = Outside(relay.asked, self.requestline, headers, body[:HEAD], len(body))
        relay.outside.append(seen)
        relay.sealed.append(body)
        trouble = relay.troubles.pop(0) if relay.troubles else None
        if trouble == 0:
            self.close_connection = True
            return
        status, answer = relay.answer(body) if trouble is None else (trouble, b"")
        self.send_response_only(status)
        self.send_header("Content-Type", RESPONSE_TYPE)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None: ...


def _sealed(exchange: Exchange, status: int, answer: bytes) -> bytes:
    fields = ((b"content-type", b"application/json"),)
    return exchange.seal_response(
        encode_response(BinaryResponse(status, fields, answer), SIZE_STEP)
    )


def relay_checks(file: MetricsFile) -> Iterator[Check]:
    """Yield the checks of this SDK behind a relay, over pairs of lives with all metrics of a file.

    The values of a pair differ, or change in one life and not in the other.
    """
    file = crowd_file(file)
    first, second, changing = lives(file)
    quiet = logging.getLogger("client_sdk")
    pairs = []
    before, quiet.disabled = quiet.disabled, True  # requests that are refused on purpose
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(PAIRS):
            other = changing if seed % 2 else second
            pairs.append(
                tuple(
                    _lived(file, life, seed, Path(folder) / f"{seed}{name}")
                    for life, name in ((first, "a"), (other, "b"))
                )
            )
    quiet.disabled = before
    devices = [device for pair in pairs for device in pair]
    requests = [body for device in devices for body in device.sealed]
    told = [_difference(*pair) for pair in pairs]
    yield _check(
        "outside of the encapsulation, values do not show: in requests, headers or sizes",
        [one for one in told if one], one_of(len(pairs), "pairs of lives"),
    )  # fmt: skip
    yield _check(
        "each encapsulation opens with the collector's key and holds a batch of one metric, or of"
        " two that are linked",
        [one for device in devices for one in device.strange], one_of(len(requests), "requests"),
    )  # fmt: skip
    keys = Counter(body[HEAD:CLEAR] for body in requests)
    yield _check(
        "each request, also one sent again, has an encapsulation of its own",
        [f"{number} requests with one public value" for number in keys.values() if number > 1],
        one_of(len(requests), "requests"),
    )  # fmt: skip
    direct = sum(device.direct for device in devices)
    yield _check(
        "a device with a relay sends each encapsulation to it, and nothing past it",
        [f"{direct} requests to the collector itself"] if direct else [],
        one_of(len(devices), "devices"),
    )  # fmt: skip


def _check(what: str, wrong: list[str], power: Smallest) -> Check:
    return exact("", what, BOX, f"{wrong[0][:200]} ({len(wrong)} times)" if wrong else "", power)


def _difference(first: Lived, second: Lived) -> str:
    """The first difference of what a relay saw of two lives; "" where there is none."""
    for number, (one, other) in enumerate(zip(first.outside, second.outside, strict=True), 1):
        if len(one) != len(other):
            return f"sitting {number}: {len(one)} requests and {len(other)}"
        left, right = Counter(one) - Counter(other), Counter(other) - Counter(one)
        for a, b in zip(left, right, strict=False):
            for name, mine, others in zip(Outside._fields, a, b, strict=True):
                if mine != others:
                    return f"sitting {number}: {name} {mine!r} and {others!r}"
    return ""


def _lived(file: MetricsFile, life: tuple[Sitting, ...], seed: int, directory: Path) -> Lived:
    """Run one device through a life behind a relay of its own."""
    delivery = Delivery(mean_delay=MEAN_DELAY, first_pause=0.01)
    randomness = FixedRandomness(seed)
    outside = []
    linked = {frozenset(one.of) for one in file.associations}
    with AuditRelay(linked) as relay:
        for sitting in life:
            start = len(relay.outside)
            with Client.open(
                file, state_dir=directory, collector=relay.collector.url, consent=True,
                delivery=delivery, relay=relay.relay, randomness=randomness,
                clock=lambda now=sitting.now: now,  # type: ignore[misc]
            ) as client:  # fmt: skip
                until_idle(client, sitting.now)  # what periods left is queued by its thread
                for name, value in sitting.recorded:
                    if isinstance(value, tuple):
                        at = datetime.fromtimestamp(sitting.now, UTC)
                        client.record_location(name, value[0], value[1], at)
                    else:
                        client.record(name, value)
                until_idle(client, sitting.now)
                if sitting.sent:
                    relay.asked, relay.troubles = True, list(sitting.refused)
                    client.flush(SECONDS)
                    relay.asked, relay.troubles = False, []
            outside.append(relay.outside[start:])
        return Lived(outside, relay.sealed, len(relay.collector.requests), relay.strange)
