"""Once consent is withdrawn, or the client closed, not one byte leaves: in whatever state."""

import fcntl
import socket
import ssl
import struct
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Client, Delivery, Transport, TransportError
from client_sdk.delivery.thread import SenderThread
from tests.waiting import until, waited

AT_ONCE = Delivery(mean_delay=0, first_pause=0.01, timeout=10)
CERTIFICATE = Path(__file__).parent / "tls" / "loopback.pem"
End = Callable[[Client], None]


@pytest.fixture(params=["withdrawal", "close"])
def end(request: pytest.FixtureRequest) -> End:
    return (lambda c: c.set_consent(False)) if request.param == "withdrawal" else Client.close


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        server.settimeout(5)
        yield server


def url_of(server: socket.socket, scheme: str = "http") -> str:
    return f"{scheme}://127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def full_backlog(server: socket.socket) -> Iterator[None]:
    """Connections that nobody accepts, as many as the system keeps."""
    fillers = [socket.socket() for _ in range(4)]
    for filler in fillers:
        filler.setblocking(False)
        with suppress(BlockingIOError):
            filler.connect(server.getsockname())
    yield
    for filler in fillers:
        filler.close()


def bytes_until_quiet(server: socket.socket, seconds: float = 1.5) -> int:
    """All that arrives on connections that are accepted from now on."""
    taken, deadline = 0, time.monotonic() + seconds
    connections: list[socket.socket] = []
    server.settimeout(0.05)
    while time.monotonic() < deadline:
        with suppress(TimeoutError):
            connection, _ = server.accept()
            connection.setblocking(False)
            connections.append(connection)
        for connection in connections:
            with suppress(BlockingIOError, ConnectionError):
                taken += len(connection.recv(65536))
    for connection in connections:
        connection.close()
    return taken


def rest_of(connection: socket.socket) -> bytes:
    """All that still comes, up to the end of the stream."""
    connection.settimeout(1.5)
    taken = b""
    with suppress(ConnectionError):
        while data := connection.recv(65536):
            taken += data
    return taken


def ended(client: Client, end: End) -> None:
    assert waited(lambda: end(client)) < 0.5


def test_while_a_full_backlog_keeps_it_connecting(open_client, listener, end) -> None:
    with full_backlog(listener):
        time.sleep(0.1)
        client = open_client(collector=url_of(listener), delivery=AT_ONCE)
        client.record("homepage", "a")
        time.sleep(0.2)  # it is connecting, and tries again after a second
        assert client.last_error == ""
        ended(client, end)
        assert bytes_until_quiet(listener) == 0


def test_while_a_name_is_looked_up(open_client, listener, end, monkeypatch) -> None:
    real, asked = socket.getaddrinfo, threading.Event()

    def slow(host: Any, port: Any, *others: Any) -> Any:
        if host == b"localhost" and not others[-1]:
            asked.set()
            time.sleep(0.2)
            return real("127.0.0.1", port, *others)
        return real(host, port, *others)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    url = f"http://localhost:{listener.getsockname()[1]}"
    client = open_client(collector=url, delivery=AT_ONCE)
    client.record("homepage", "a")
    assert asked.wait(5)
    ended(client, end)
    listener.settimeout(1.0)
    with pytest.raises(TimeoutError):
        listener.accept()


def test_while_a_proxy_makes_its_tunnel(open_client, listener, end) -> None:
    delivery = AT_ONCE.replace(proxy=url_of(listener))
    client = open_client(collector="https://collector.example.org", delivery=delivery)
    client.record("homepage", "a")
    connection, _ = listener.accept()
    with connection:
        assert connection.recv(65536).startswith(b"CONNECT collector.example.org:443 HTTP/1.1")
        ended(client, end)
        with suppress(ConnectionError):
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        assert rest_of(connection) == b""


def test_while_a_handshake_is_under_way(open_client, listener, end) -> None:
    delivery = AT_ONCE.replace(tls=ssl.create_default_context(cafile=str(CERTIFICATE)))
    client = open_client(collector=url_of(listener, "https"), delivery=delivery)
    client.record("homepage", "a")
    connection, _ = listener.accept()
    with connection:
        hello = connection.recv(65536)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE, CERTIFICATE.with_suffix(".key"))
        server = context.wrap_bio(incoming, outgoing, server_side=True)
        incoming.write(hello)
        with pytest.raises(ssl.SSLWantReadError):
            server.do_handshake()
        ended(client, end)
        with suppress(ConnectionError):
            connection.sendall(outgoing.read())
        assert rest_of(connection) == b""


def test_while_a_body_is_being_sent(open_client, end) -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(5)
        delivery = AT_ONCE.replace(pad_to=32_768, mean_delay=3600.0)
        client = open_client(collector=url_of(listener), delivery=delivery)
        for _ in range(100):
            client.record("homepage", "a")
        flushing = threading.Thread(target=client.flush, args=(5,))
        flushing.start()
        connection, _ = listener.accept()
        with connection:
            until(lambda: waiting_in(connection) > 0)
            ended(client, end)
            arrived = waiting_in(connection)
            assert 0 < arrived < 32_768
            assert len(rest_of(connection)) <= arrived
        flushing.join()


def waiting_in(connection: socket.socket) -> int:
    return int(struct.unpack("i", fcntl.ioctl(connection, termios.FIONREAD, bytes(4)))[0])


def test_while_an_answer_is_waited_for(open_client, listener, end) -> None:
    client = open_client(collector=url_of(listener), delivery=AT_ONCE)
    client.record("homepage", "a")
    connection, _ = listener.accept()
    with connection:
        assert connection.recv(65536).startswith(b"POST /v1/reports")
        ended(client, end)
        with suppress(ConnectionError):
            connection.sendall(b"HTTP/1.1 503 later\r\nContent-Length: 0\r\n\r\n")
        assert rest_of(connection) == b""
        listener.settimeout(0.5)
        with pytest.raises(TimeoutError):
            listener.accept()


def test_while_the_thread_prepares_an_exchange(open_client, collector, end, monkeypatch) -> None:
    preparing, go_on = threading.Event(), threading.Event()
    prepare = SenderThread._make_loop

    def slow(worker: SenderThread) -> Any:
        preparing.set()
        go_on.wait(5)
        return prepare(worker)

    monkeypatch.setattr(SenderThread, "_make_loop", slow)
    client = open_client(delivery=AT_ONCE)
    client.record("homepage", "a")
    assert preparing.wait(5)
    thread = client._life.session.worker._thread
    ended(client, end)
    go_on.set()
    thread.join(5)
    assert not collector.requests


def test_a_process_with_a_copy_of_the_socket(open_client, listener) -> None:
    client = open_client(collector=url_of(listener), delivery=AT_ONCE)
    client.record("homepage", "a")
    connection, _ = listener.accept()
    with connection:
        connection.recv(65536)
        client._life.session.worker.abandon()  # as `after_fork_in_child` does
        assert rest_of(connection) == b""


def drip(connection: socket.socket, kind: str) -> None:
    """An answer that never ends, a little at a time."""
    begin, more = {
        "head": (b"HTTP/1.1 200 OK\r\nX-Slow: ", b"y"),
        "continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        "flood": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 50),
        "body": (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"z"),
        "chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1"),
        "trailer": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"A: b\r\n"),
    }[kind]
    with suppress(OSError):
        connection.sendall(begin)
        while True:
            connection.sendall(more)
            if kind != "flood":
                time.sleep(0.05)


@pytest.mark.parametrize("kind", ["head", "continue", "flood", "body", "chunk", "trailer"])
def test_one_deadline_for_a_whole_exchange(listener, kind) -> None:

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            drip(connection, kind)

    server = threading.Thread(target=serve)
    server.start()
    with Transport(url_of(listener), timeout=0.5) as transport:

        def post() -> None:
            with pytest.raises(TransportError) as failed:
                transport.post(b"x", "0" * 32, 1)
            errors.append(failed.value)

        errors: list[TransportError] = []
        assert waited(post) < 1.5
    (failed,) = errors
    assert failed.retry
    if kind not in ("flood", "chunk", "trailer"):  # those may pass a bound on size before
        assert failed.reason == "timeout"
    server.join()


def test_an_unknown_name_ends_at_the_deadline(monkeypatch) -> None:
    release = threading.Event()
    real, asked = socket.getaddrinfo, []

    def hang(host: Any, port: Any, *others: Any) -> Any:
        if others[-1]:
            return real(host, port, *others)
        asked.append(host)
        release.wait(10)
        raise socket.gaierror("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    transport = Transport("http://collector.example.org", timeout=0.2)
    for _ in range(3):
        with pytest.raises(TransportError, match="within"):
            transport.post(b"x", "0" * 32, 1)
    assert len(asked) == 1  # one lookup at a time, however often it is tried
    release.set()


def test_a_silent_address_leaves_time_for_the_next(collector, listener, monkeypatch) -> None:
    good = ("127.0.0.1", int(collector.url.rsplit(":", 1)[1]))
    kind = (socket.AF_INET, socket.SOCK_STREAM, 0, "")
    both = [(*kind, listener.getsockname()), (*kind, good)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: both)
    refused = pytest.raises(TransportError)
    transport = Transport("http://two.example.org", timeout=1.0)
    with full_backlog(listener), transport, refused as answered:
        transport.post(b"x", "0" * 32, 1)
    assert answered.value.reason == "http_400"
