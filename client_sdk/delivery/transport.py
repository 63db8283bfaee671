"""Sending a batch by one HTTP POST, and reading its answer, without queue, retries or state.

Nothing that identifies the device is sent: there are no cookies, and the user agent is only the
protocol's version. Redirects are not followed. Network modules are imported when a connection is
first made, so that an app that only records does not load them.
"""

from __future__ import annotations

import time
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING

from client_sdk import fork_hooks as forks
from client_sdk.delivery.addresses import address_of, check_key, check_key_is_hidden, split_url
from client_sdk.delivery.cancellation import Cancellation, CancelledError
from client_sdk.delivery.messages import GZIP, Answer, failure, read_answer
from client_sdk.errors import TransportError
from rappor_core.wire.binary import encode_binary
from rappor_core.wire.report import BINARY_CONTENT_TYPE, WIRE_VERSION, Batch

if TYPE_CHECKING:
    import ssl
    from email.message import Message

    from client_sdk.delivery.connection import Connection, Dialer

    Fields = Message | dict[str, str]  # the headers of an answer

REPORTS_PATH = "/v1/reports"
USER_AGENT = f"rappor/{WIRE_VERSION}"
MAX_INFLATED = 2 << 20  # the maximum number of bytes in a decompressed answer


class Transport:
    """A transport to one collector, over a connection that stays open between batches.

    One thread may use it at a time; a different thread may stop sending through `cancellation`.

    Args:
        url: The URL of the collector, or of a relay that forwards bodies:
            `http(s)://host[:port][/prefix]`.
        key: The key, sent as a bearer token.
        timeout: The time limit for one whole exchange, in seconds.
        proxy: `http://host:port` of an HTTP proxy (CONNECT for https).
        tls: An `ssl.SSLContext`.
        certificates: The file and directory of certificate authorities, in addition to the
            system's.
        plain_key: Whether a key may be sent over plain http to any host, such as an emulator's
            host; if not, only to loopback addresses.
        cancellation: The flag with which a different thread may stop sending.

    Raises ParameterError if an address is invalid, or if others could read the key.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float = 10.0,
        proxy: str | None = None,
        tls: ssl.SSLContext | None = None,
        certificates: tuple[str | None, str | None] = (None, None),
        plain_key: bool = False,
        cancellation: Cancellation | None = None,
    ) -> None:
        """Check the addresses; connect only when the first batch is sent."""
        self._scheme, self._host, prefix = split_url(url)
        self._path = prefix + REPORTS_PATH
        self._proxy = None if proxy is None else split_url(proxy)[1]
        self._headers = {"User-Agent": USER_AGENT}
        check_key(key)
        if not plain_key:
            check_key_is_hidden(key, url)
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._timeout = timeout
        self._tls = tls
        self._certificates = certificates
        self._cancellation = cancellation or Cancellation()
        self._dialer: Dialer | None = None
        self._connection: Connection | None = None

    def send(self, batch: Batch) -> Answer:
        """Encode a batch, send it once, and return the collector's results.

        Raises TransportError if no answer to this batch arrived; its `retry` states whether the
        same batch may be sent again.
        """
        body = zlib.compress(encode_binary(batch), 6, wbits=GZIP)
        return self.post(body, batch.batch_id, len(batch.reports))

    def post(self, body: bytes, batch_id: str, num_reports: int) -> Answer:
        """Send an encoded batch once, and return the collector's results.

        Args:
            body: A batch, binary and gzipped.
            batch_id: The batch id, 32 hexadecimal digits.
            num_reports: The number of reports; the answer must have a result for each.

        Raises:
            TransportError: There was no answer, or the answer rejects the batch.
        """
        headers = {
            **self._headers, "Content-Type": BINARY_CONTENT_TYPE, "Content-Encoding": "gzip"
        }  # fmt: skip
        status, fields, answer = self._exchange(body, headers)
        if fields.get("Content-Encoding", "").strip().lower() == "gzip":  # although not requested
            with suppress(zlib.error):  # unchanged if it is not gzip
                answer = zlib.decompressobj(GZIP).decompress(answer, MAX_INFLATED)
        if status != 200:
            wait, kind = fields.get("Retry-After"), fields.get("Content-Type")
            raise failure(status, answer, wait, kind, body)
        return read_answer(answer, batch_id, num_reports)

    def close(self) -> None:
        """Close the connection; the next batch opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def __enter__(self) -> Transport:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exchange(self, body: bytes, headers: dict[str, str]) -> tuple[int, Fields, bytes]:
        """Send one POST, reconnecting once if needed; return status, fields and body."""
        reused = self._connection is not None
        deadline = time.monotonic() + self._timeout
        try:
            with self._cancellation.exchange():
                try:
                    return self._try(body, headers, deadline)
                except TransportError as error:
                    if not (reused and error.reason == "disconnected"):
                        raise
                return self._try(body, headers, deadline)
        except CancelledError:
            raise TransportError("sending was canceled", reason="cancelled", retry=True) from None

    def _try(
        self, body: bytes, headers: dict[str, str], deadline: float
    ) -> tuple[int, Fields, bytes]:
        with forks.loading():
            from http.client import HTTPException

        try:
            connection = self._connection or self._connect(deadline)
            connection.begin(deadline)
            target = self._path
            if self._proxy is not None and self._scheme == "http":
                target = f"http://{self._host}{target}"  # a proxy needs the whole address
            connection.send(_head(target, self._host, headers, len(body)) + body)
            response = connection.answer("POST")
            answer = response.read()
        except (OSError, HTTPException, ValueError, OverflowError, MemoryError) as error:
            self.close()
            raise self._trouble(error) from error
        except BaseException:  # including a cancellation
            self.close()
            raise
        if response.will_close or response.status < 200:  # such as an unrequested protocol switch
            self.close()
        return response.status, response.headers, answer

    def _trouble(self, error: Exception) -> TransportError:
        if isinstance(error, TimeoutError):
            message = f"no answer from {self._host} within {self._timeout:g} s"
            return TransportError(message, reason="timeout", retry=True)
        gone = isinstance(error, ConnectionError)  # including RemoteDisconnected
        return TransportError(
            f"no exchange with {self._host}: {type(error).__name__}: {error}",
            reason="disconnected" if gone else "no_connection",
            retry=True,
        )

    def _connect(self, deadline: float) -> Connection:
        target = address_of(self._scheme, self._host)
        if self._dialer is None:
            with forks.loading():
                from client_sdk.delivery.connection import Dialer

            via = target if self._proxy is None else address_of("http", self._proxy)
            self._dialer = Dialer(via.host, via.port, self._cancellation)
        connection = self._connection = self._dialer.dial(deadline)
        if self._scheme == "https":
            if self._proxy is not None:
                host = f"[{target.host}]" if ":" in target.host else target.host
                host = f"{host}:{target.port}"
                connection.send(f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode("ascii"))
                status = connection.answer("CONNECT").status
                if status != 200:
                    raise OSError(f"the proxy answered {status} to CONNECT")
            connection.start_tls(self._tls_context(), target.host)
        return connection

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            from ssl import create_default_context

            self._tls = create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
            if any(self._certificates):
                with suppress(OSError):  # OpenSSL, too, ignores missing files
                    self._tls.load_verify_locations(*self._certificates)
        return self._tls


def _head(target: str, host: str, headers: dict[str, str], num_bytes: int) -> bytes:
    fixed = {"Host": host, "Accept-Encoding": "identity", "Content-Length": str(num_bytes)}
    fields = "".join(f"{name}: {text}\r\n" for name, text in {**fixed, **headers}.items())
    return f"POST {target} HTTP/1.1\r\n{fields}\r\n".encode("ascii")
