"""A device behind a relay without the client: what it sends, and the answers that it opens."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType

import httpx

from collector.domain.relay_keys import RelayKeys, create_relay_key
from rappor_core.ohttp.binary_http import (
    SIZE_STEP,
    BinaryRequest,
    BinaryResponse,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from rappor_core.ohttp.encapsulation import (
    REQUEST_TYPE,
    RESPONSE_TYPE,
    Exchange,
    KeyConfig,
    decapsulate,
    encapsulate,
)

OUTER = {"content-type": REQUEST_TYPE}
JSON = {b"content-type": b"application/json"}


def new_keys(folder: Path, number: int = 1) -> tuple[Path, list[KeyConfig]]:
    file = folder / "ohttp-keys.json"
    return file, [create_relay_key(file, date(2026, 11, 21)).config for _ in range(number)]


def relayed(
    http: httpx.Client, url: str, body: bytes, headers: Mapping[str, str] = MappingProxyType({})
) -> httpx.Response:
    """Post what a relay posts, without what httpx adds to say what it is."""
    request = http.build_request("POST", url, content=body, headers={**OUTER, **headers})
    for name in {"accept-encoding", "user-agent"} - headers.keys():
        del request.headers[name]
    return http.send(request)


@dataclass
class Behind:
    """Sends requests for one key to a URL, as a relay passes them on."""

    http: httpx.Client
    config: KeyConfig
    url: str = "/v1/ohttp"

    def seal(
        self,
        body: bytes,
        fields: Mapping[bytes, bytes] = JSON,
        method: bytes = b"POST",
        path: bytes = b"/v1/reports",
    ) -> tuple[bytes, Exchange]:
        request = BinaryRequest(method, b"https", b"", path, tuple(fields.items()), body)
        return encapsulate(self.config, encode_request(request, SIZE_STEP))

    def pass_on(self, sealed: bytes, **headers: str) -> httpx.Response:
        return relayed(self.http, self.url, sealed, headers)

    def post(
        self,
        body: bytes,
        fields: Mapping[bytes, bytes] = JSON,
        method: bytes = b"POST",
        path: bytes = b"/v1/reports",
    ) -> BinaryResponse:
        sealed, exchange = self.seal(body, fields, method, path)
        return opened(self.pass_on(sealed), exchange)


def opened(response: httpx.Response, exchange: Exchange) -> BinaryResponse:
    """The answer within one that a collector sealed."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == RESPONSE_TYPE
    return decode_response(exchange.open_response(response.content))


class Passing(BaseHTTPRequestHandler):
    """Passes bodies on to the collector of its server, and nothing else."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: PassingRelay

    def do_POST(self) -> None:
        relay = self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        relay.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        if relay.instead:
            self._write(*relay.instead.pop(0))
            return
        status, headers, answer = relay.pass_on(body)
        if relay.lose_answers > 0:
            relay.lose_answers -= 1
            self.close_connection = True
            return
        self._write(status, headers, answer)

    def _write(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response_only(status)
        kept = {k.title(): v for k, v in headers.items() if k.lower() in PASSED_BACK}
        for name, value in {**kept, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


PASSED_BACK = ("content-type", "retry-after")


class PassingRelay(ThreadingHTTPServer):
    """Remembers what it saw. instead: its own answers first. lose_answers: that no device gets."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, collector: str) -> None:
        super().__init__(("127.0.0.1", 0), Passing)
        self.http = httpx.Client(base_url=collector, timeout=20)
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.instead: list[tuple[int, dict[str, str], bytes]] = []
        self.lose_answers = 0
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/ohttp"

    def pass_on(self, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        answer = relayed(self.http, "/v1/ohttp", body)
        return answer.status_code, answer.headers, answer.content

    def handle_error(self, request: object, client_address: object) -> None: ...

    def __enter__(self) -> PassingRelay:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()
        self.http.close()


class OpeningRelay(PassingRelay):
    """A relay that opens requests itself, for a collector that cannot: both in one."""

    def __init__(self, collector: str, file: Path) -> None:
        super().__init__(collector)
        self._keys = RelayKeys(file)

    def pass_on(self, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        plain, exchange = decapsulate(self._keys.private_keys(), body)
        request = decode_request(plain)
        fields = {name.decode(): value.decode() for name, value in request.fields}
        answer = self.http.post(request.path.decode(), content=request.content, headers=fields)
        kind = answer.headers["content-type"].encode()
        inner = BinaryResponse(answer.status_code, ((b"content-type", kind),), answer.content)
        sealed = exchange.seal_response(encode_response(inner, SIZE_STEP))
        return 200, {"content-type": RESPONSE_TYPE}, sealed
