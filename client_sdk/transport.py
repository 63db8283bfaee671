"""Batches over HTTP: one POST, one answer. No queue, no retry, no state: those are the sender's.

What identifies is left out: no cookie, no user agent beyond the protocol's version, no redirection
followed. `http.client` is imported when a connection is first made, so that an app that only
records does not pay for it.
"""

from __future__ import annotations

import time
import zlib
from typing import TYPE_CHECKING

from client_sdk import forks
from client_sdk.address import check_key, split_url
from client_sdk.answers import Answer, failure, read_answer
from client_sdk.batches import GZIP, content_type
from client_sdk.errors import TransportError
from rappor_core.report import WIRE_VERSION, Batch
from rappor_core.report_binary import encode_binary
from rappor_core.report_json import encode_json

if TYPE_CHECKING:
    import ssl
    from http.client import HTTPConnection, HTTPResponse

REPORTS_PATH = "/v1/reports"
USER_AGENT = f"rappor/{WIRE_VERSION}"
DEFAULT_TIMEOUT = 10.0
MAX_ANSWER_BYTES = 8 << 20


class Transport:
    """A way to one collector, over a connection that is kept open between batches.

    url: `http(s)://host[:port][/prefix]`, of the collector or of a relay that passes bodies on.
    key: sent as a bearer token.  timeout: seconds for one exchange, as a whole.
    proxy: `http://host:port` of an HTTP proxy (CONNECT for https).  tls: an `ssl.SSLContext`.

    One thread at a time; `abort` alone may be called from another.
    Raises ParameterError for an address that is not one.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        proxy: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Check the addresses; connect only when the first batch is sent."""
        self._scheme, self._host, prefix = split_url(url)
        self._path = prefix + REPORTS_PATH
        self._proxy = None if proxy is None else split_url(proxy)[1]
        self._headers = {"User-Agent": USER_AGENT}
        check_key(key)
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._timeout = timeout
        self._tls = tls
        self._connection: HTTPConnection | None = None

    def send(self, batch: Batch, *, binary: bool = True, compress: bool = True) -> Answer:
        """Encode a batch, send it once, and return the collector's results.

        Raises TransportError when no answer to this batch came; its `retry` says whether the same
        batch may be sent again.
        """
        body = encode_binary(batch) if binary else encode_json(batch)
        encoding = "gzip" if compress else None
        body = zlib.compress(body, 6, wbits=GZIP) if compress else body
        kind = content_type(json=not binary)
        return self.post(
            body, batch.batch_id, len(batch.reports), content_type=kind, encoding=encoding
        )

    def post(
        self,
        body: bytes,
        batch_id: str,
        num_reports: int,
        *,
        content_type: str,
        encoding: str | None,
    ) -> Answer:
        """Send bytes made earlier; otherwise as `send`."""
        headers = {**self._headers, "Content-Type": content_type}
        if encoding is not None:
            headers["Content-Encoding"] = encoding
        status, retry_after, answer = self._exchange(body, headers)
        if status != 200:
            raise failure(status, answer, retry_after)
        return read_answer(answer, batch_id, num_reports)

    def close(self) -> None:
        """Close the connection; the next batch opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def abort(self) -> None:
        """Break off an exchange that another thread is waiting for."""
        connection = self._connection
        sock = connection.sock if connection is not None else None
        if sock is not None:
            try:
                sock.shutdown(2)  # both directions: wakes a blocked read
            except OSError:
                return  # already closed: nothing waits on it any more

    def __enter__(self) -> Transport:
        """Nothing to do: connections are made when needed."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()

    def _exchange(self, body: bytes, headers: dict[str, str]) -> tuple[int, str | None, bytes]:
        """One POST; a connection that the server closed while idle is replaced once."""
        reused = self._connection is not None
        try:
            return self._try(body, headers)
        except TransportError as error:
            if not (reused and error.reason == "disconnected"):
                raise
        return self._try(body, headers)

    def _try(self, body: bytes, headers: dict[str, str]) -> tuple[int, str | None, bytes]:
        with forks.loading():
            from http.client import HTTPException

        deadline = time.monotonic() + self._timeout
        try:
            connection = self._connection or self._connect()
            connection.request("POST", self._target(), body, headers)
            response = connection.getresponse()
            answer = _read(response, deadline)
            if response.will_close:
                self.close()
            return response.status, response.getheader("Retry-After"), answer
        except TimeoutError:
            self.close()
            raise TransportError(
                f"no answer from {self._host} within {self._timeout:g} s",
                reason="timeout",
                retry=True,
            ) from None
        except (OSError, HTTPException) as error:
            self.close()
            gone = isinstance(error, ConnectionError)  # RemoteDisconnected among them
            raise TransportError(
                f"no exchange with {self._host}: {type(error).__name__}: {error}",
                reason="disconnected" if gone else "no_connection",
                retry=True,
            ) from error

    def _connect(self) -> HTTPConnection:
        from http.client import HTTPConnection, HTTPSConnection

        host = self._proxy or self._host
        connection: HTTPConnection
        if self._scheme == "https":
            connection = HTTPSConnection(host, timeout=self._timeout, context=self._tls)
            if self._proxy is not None:
                connection.set_tunnel(self._host)
        else:
            connection = HTTPConnection(host, timeout=self._timeout)
        self._connection = connection
        connection.connect()
        return connection

    def _target(self) -> str:
        if self._proxy is not None and self._scheme == "http":
            return f"http://{self._host}{self._path}"  # a proxy takes the whole address
        return self._path


def _read(response: HTTPResponse, deadline: float) -> bytes:
    """The body, bounded in size and in time as a whole (a socket's time-out is for each read)."""
    parts: list[bytes] = []
    size = 0
    while part := response.read1(65536):
        parts.append(part)
        size += len(part)
        if size > MAX_ANSWER_BYTES:
            raise OSError(f"the answer is longer than {MAX_ANSWER_BYTES} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError
    response.close()  # read to its end: the connection is free for the next batch
    return b"".join(parts)
