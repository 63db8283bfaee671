"""Attacks on the withdrawal of consent: not one byte leaves after it, wherever the exchange is."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import ssl
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from client_sdk import Client, Delivery
from client_sdk.testing import MemoryCollector
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metrics_file import MetricsFile
from tests.client.conftest import METRICS

CERTIFICATE = Path(__file__).parents[1] / "client" / "tls" / "loopback.pem"
HURRIED = Delivery(mean_delay=0, first_pause=0.001, longest_pause=0.002, timeout=2)
QUIET = Delivery(mean_delay=86_400.0)
ROUNDS = 6


@pytest.fixture(scope="module")
def metrics() -> MetricsFile:
    return parse_metrics(METRICS)


class SlowNetwork:
    """Takes connections, reads and answers a little at a time, and never ends an exchange.

    way: `http` and `proxy` get no answer, `tunnel` a 200 to CONNECT and then TLS, `tls` TLS.
    """

    def __init__(self, way: str, rng: random.Random) -> None:
        self.taken = 0
        self._way, self._rng = way, rng
        self._lock, self._ended = threading.Lock(), False
        self._open: dict[socket.socket, ssl.SSLObject | None] = {}
        self._bios: dict[socket.socket, tuple[ssl.MemoryBIO, ssl.MemoryBIO]] = {}
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.setblocking(False)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(CERTIFICATE, CERTIFICATE.with_suffix(".key"))
        self._thread = threading.Thread(target=self._run)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.getsockname()[1]}"

    def __enter__(self) -> SlowNetwork:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._thread.join()
        for connection in [*self._open, self._server]:
            connection.close()

    def received(self) -> int:
        """Bytes that have left the device until now: read here, or waiting to be."""
        with self._lock:
            self._accept()
            waiting = b"\0" * 4
            queued = [fcntl.ioctl(one.fileno(), termios.FIONREAD, waiting) for one in self._open]
            return self.taken + sum(int.from_bytes(number, sys.byteorder) for number in queued)

    def _run(self) -> None:
        while not self._ended:
            time.sleep(self._rng.random() * 0.4)  # closing waits for 0.1 s at most
            with self._lock:
                self._accept()
                for connection in list(self._open):
                    with suppress(OSError, ssl.SSLError):
                        self._serve(connection)

    def _accept(self) -> None:
        with suppress(BlockingIOError):
            while True:
                connection, _ = self._server.accept()
                connection.setblocking(False)
                self._open[connection] = None
                if self._way == "tls":
                    self._begin_tls(connection)

    def _begin_tls(self, connection: socket.socket) -> None:
        bios = self._bios[connection] = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._open[connection] = self._context.wrap_bio(*bios, server_side=True)

    def _serve(self, connection: socket.socket) -> None:
        data = connection.recv(self._rng.choice([300, 65_536]))
        self.taken += len(data)
        tls = self._open[connection]
        if tls is not None:
            incoming, outgoing = self._bios[connection]
            incoming.write(data)
            with suppress(ssl.SSLWantReadError):
                tls.do_handshake()
            connection.send(outgoing.read())
        elif self._way == "tunnel" and b"CONNECT" in data:
            connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
            self._begin_tls(connection)


def delivery_by(way: str, network: SlowNetwork) -> tuple[str, Delivery]:
    """The collector's address and the delivery that lead through a network."""
    trusting = ssl.create_default_context(cafile=str(CERTIFICATE))
    trusting.check_hostname = False
    if way == "proxy":
        return "http://collector.example.org", HURRIED.replace(proxy=f"http://{network.address}")
    if way == "tunnel":
        proxied = HURRIED.replace(proxy=f"http://{network.address}", tls=trusting)
        return "https://collector.example.org", proxied
    scheme = "https" if way == "tls" else "http"
    return f"{scheme}://{network.address}", HURRIED.replace(tls=trusting)


@pytest.mark.parametrize(
    "way",
    ["http", *(pytest.param(way, marks=pytest.mark.long) for way in ("proxy", "tunnel", "tls"))],
)
def test_at_random_moments_over_each_way(way: str, metrics: MetricsFile, tmp_path: Path) -> None:
    """In a connection, a proxy's tunnel, a handshake, a head, a body, or between two tries."""
    rng, left_before = random.Random(way), 0
    for number in range(ROUNDS):
        with SlowNetwork(way, rng) as network:
            collector, delivery = delivery_by(way, network)
            folder = tmp_path / str(number)
            with Client.open(
                metrics, state_dir=folder, collector=collector, consent=True, delivery=delivery
            ) as client:
                for _ in range(50):
                    client.record("homepage", "a")
                time.sleep(rng.random() * 0.4)
                client.set_consent(False)
                before = network.received()
                left_before += before > 0
                time.sleep(0.5)
                assert network.received() == before
                assert client.inspect()["status"]["condition"] == "no_consent"
    assert left_before >= ROUNDS / 4  # the attack reaches exchanges that are under way


@pytest.fixture
def collector(metrics: MetricsFile) -> Iterator[MemoryCollector]:
    with MemoryCollector(metrics.metrics) as running:
        yield running


def open_at(
    folder: Path, metrics: MetricsFile, collector: MemoryCollector, **changes: object
) -> Client:
    given: dict[str, object] = {"consent": True, "delivery": QUIET} | changes
    return Client.open(metrics, state_dir=folder, collector=collector.url, **given)  # type: ignore[arg-type]


FORKED = """
import os, sys
from client_sdk import Client, Delivery
metrics, folder, url, who = sys.argv[1:]
client = Client.open(metrics, state_dir=folder, collector=url, consent=True,
                     delivery=Delivery(mean_delay=86_400.0))
for _ in range(20):
    assert client.record("homepage", "a")
told, tell = os.pipe()
child = os.fork()
if child == 0:
    assert client.record("homepage", "b")
if (child == 0) == (who == "child"):
    client.set_consent(False)
    os.write(tell, b"x")
else:
    os.read(told, 1)
    client.flush(2)
    client.record("homepage", "c")
    client.flush(2)
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.parametrize("who", ["parent", "child"])
def test_nothing_leaves_a_forked_process(
    who: str, collector: MemoryCollector, tmp_path: Path
) -> None:
    (tmp_path / "metrics.toml").write_text(METRICS)
    arguments = [str(tmp_path / "metrics.toml"), str(tmp_path / "state"), collector.url, who]
    subprocess.run([sys.executable, "-c", FORKED, *arguments], check=True, timeout=60)
    assert collector.requests == []


@pytest.mark.parametrize("keeps_open", [True, False], ids=["open", "closed"])
def test_with_a_state_that_was_cut_short(
    keeps_open: bool, metrics: MetricsFile, collector: MemoryCollector, tmp_path: Path
) -> None:
    """At 12 lengths, while the client is open and while it is not; with the log and without."""
    rng = random.Random(3)
    for number in range(12):
        folder = tmp_path / str(number)
        client = open_at(folder, metrics, collector)
        secret = client._life.session.state.identity().secret  # type: ignore[union-attr]
        assert secret is not None
        assert all(client.record("homepage", "a") for _ in range(50))
        if not keeps_open:
            client.close()
        for file in folder.glob("state.sqlite*"):
            if not file.name.endswith("-shm"):
                os.truncate(file, rng.randrange(file.stat().st_size + 1))
        if not keeps_open:
            client = open_at(folder, metrics, collector, consent=False)
        client.set_consent(False)
        client.flush(0.2)
        client.close()
        assert collector.requests == []
        halves = (secret[:16], secret[16:])
        assert not any(half in f.read_bytes() for f in folder.iterdir() for half in halves)


def test_with_do_not_track_set(
    metrics: MetricsFile,
    collector: MemoryCollector,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It stops the sending, wipes nothing; a withdrawal under it wipes all the same."""
    client = open_at(tmp_path / "state", metrics, collector)
    assert client.record("homepage", "a")
    secret = client._life.session.state.identity().secret  # type: ignore[union-attr]
    assert secret is not None
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    client.set_consent(True)
    assert client.status.condition == "do_not_track"
    assert not client.record("homepage", "a")
    client.flush(0.2)
    client.close()
    client = open_at(tmp_path / "state", metrics, collector)
    client.flush(0.2)
    assert collector.requests == []
    client.set_consent(False)
    monkeypatch.delenv("DO_NOT_TRACK")
    assert not any(secret in file.read_bytes() for file in (tmp_path / "state").iterdir())
    client.set_consent(True)
    assert client.flush(5)
    assert collector.requests == []
    client.close()
