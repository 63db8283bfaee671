"""TLS and proxies, over real sockets on loopback. The key and certificate are for tests alone."""

import http.client
import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from client_sdk import Encoder, Transport, TransportError
from client_sdk.testing import MemoryCollector
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.wire.report import Batch, make_batch
from tests.http_server import serving

FOLDER = Path(__file__).parent / "tls"
CERTIFICATE = FOLDER / "loopback.pem"


@pytest.fixture
def batch(metrics: MetricsFile) -> Batch:
    report = Encoder(metrics.metrics, bytes(32)).encode("theme", "dark", date(2026, 11, 21))
    return make_batch(bytes(16), [report])


@pytest.fixture
def secure_collector(metrics: MetricsFile) -> Iterator[MemoryCollector]:
    collector = MemoryCollector(metrics.metrics)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, FOLDER / "loopback.key")
    server = collector._server
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with collector:
        yield collector


def secure_url(collector: MemoryCollector) -> str:
    return collector.url.replace("http://", "https://")


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(CERTIFICATE))


def test_a_certificate_that_nobody_signed_is_not_trusted(secure_collector, batch) -> None:
    with (
        Transport(secure_url(secure_collector)) as transport,
        pytest.raises(TransportError, match="CERTIFICATE_VERIFY_FAILED") as refused,
    ):
        transport.send(batch)
    assert refused.value.retry
    assert not secure_collector.requests


class Proxy(ThreadingHTTPServer):
    """Passes on whole addresses (http) and tunnels (https); remembers what it was asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ProxyHandler)
        self.asked: list[str] = []


class ProxyHandler(BaseHTTPRequestHandler):
    server: Proxy
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.server.asked.append(f"POST {self.path}")
        _, _, host, path = self.path.split("/", 3)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        upstream = http.client.HTTPConnection(host, timeout=5)
        upstream.request("POST", f"/{path}", body, dict(self.headers))
        answer = upstream.getresponse()
        content = answer.read()
        self.send_response_only(answer.status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        upstream.close()

    def do_CONNECT(self) -> None:
        self.server.asked.append(f"CONNECT {self.path}")
        host, port = self.path.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=5) as upstream:
            self.send_response_only(200)
            self.end_headers()
            back = threading.Thread(target=pump, args=(upstream, self.connection))
            back.start()
            pump(self.connection, upstream)
            back.join()
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


def pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        return  # the other side is gone


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with serving(Proxy()) as server:
        yield server


def address(proxy: Proxy) -> str:
    return f"http://127.0.0.1:{proxy.server_address[1]}"


def test_a_proxy_takes_the_whole_address(collector, proxy, batch) -> None:
    with Transport(collector.url, proxy=address(proxy)) as transport:
        assert transport.send(batch).results[0].accepted
    assert proxy.asked == [f"POST {collector.url}/v1/reports"]
    assert len(collector.reports) == 1


def test_a_proxy_tunnels_tls_and_sees_nothing(secure_collector, proxy, batch) -> None:
    url = secure_url(secure_collector)
    with Transport(url, "key", proxy=address(proxy), tls=trusting()) as transport:
        assert transport.send(batch).results[0].accepted
    assert proxy.asked == [f"CONNECT {url.removeprefix('https://')}"]
