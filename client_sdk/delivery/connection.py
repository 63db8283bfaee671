"""Connections to a collector: name lookup, TCP, proxy and TLS, with a deadline and cancellation.

The sockets do not block. Each wait is split into steps, between which the deadline and the
cancellation are checked. All data that is sent, even by TLS itself, passes through the
`Cancellation`. Python's own timeouts apply to each read, so a server that sends an occasional byte
would never trigger them.
"""

from __future__ import annotations

import io
import os
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from http.client import HTTPResponse
from typing import TYPE_CHECKING, Any, TypeVar, cast

from client_sdk.delivery.cancellation import Cancellation

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAX_ANSWER_BYTES = 2 << 20  # the longest answer, with 10,000 refusals, has 1 MB
SWITCHING_PROTOCOLS = 101
PIECE = 65_536  # the maximum number of bytes per read
RESET = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)  # linger for 0 seconds

_Result = TypeVar("_Result")


class Connection:
    """An open TCP or TLS connection, used by one thread.

    `deadline`, on the monotonic clock, applies to all waits. It is set again for each exchange.
    """

    def __init__(self, sock: socket.socket, cancellation: Cancellation, deadline: float) -> None:
        """Wrap a non-blocking socket that is connected or connecting."""
        self._sock = sock
        self._cancellation = cancellation
        self._tls: ssl.SSLObject | None = None
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._taken = 0
        self._file = io.BufferedReader(_Reader(self))
        self.deadline = deadline

    def begin(self, deadline: float) -> None:
        """Start a new exchange over the same connection."""
        self.deadline = deadline
        self._taken = 0

    def finish_connecting(self) -> None:
        """Wait until TCP is connected. Raises OSError on failure."""
        self._wait(writing=True)
        if error := self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(error, "the connection could not be made")

    def start_tls(self, context: ssl.SSLContext, host: str) -> None:
        """Perform the TLS handshake. Raises ssl.SSLError if it fails (bad certificate)."""
        tls = context.wrap_bio(self._received, self._to_send, server_hostname=host)
        self._through(tls.do_handshake)
        self._tls = tls

    def send(self, data: bytes) -> None:
        """Send all bytes, before the deadline."""
        if self._tls is None:
            self._send(data)
            return
        remaining = memoryview(data)
        while remaining:
            remaining = remaining[self._through(self._tls.write, remaining) :]

    def receive(self, most: int) -> bytes:
        """Return 1 to `most` received bytes, or b"" at the end of the stream."""
        if self._tls is None:
            return self._receive(most)
        try:
            return self._through(self._tls.read, most)
        except ssl.SSLEOFError:  # closed without a TLS alert, as many servers do
            return b""

    def answer(self, method: str) -> HTTPResponse:
        """Read the final answer's headers, and skip informational answers (RFC 9110, 15.2)."""
        self._file = io.BufferedReader(_Reader(self))
        while True:
            response = _Answer(cast("socket.socket", self), method=method)
            response.begin()
            if not 100 <= response.status < 200 or response.status == SWITCHING_PROTOCOLS:
                return response

    def makefile(self, *_: Any) -> io.BufferedIOBase:
        """Return the buffered reader over the connection, which `HTTPResponse` requires."""
        return self._file

    def close(self) -> None:
        """Close the connection; if canceled, also discard data that the system has not sent yet."""
        if self._cancellation.cancelled:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._sock.close()

    def _through(self, action: Callable[..., _Result], *arguments: Any) -> _Result:
        """Run a TLS step until it succeeds, and exchange its bytes with the server meanwhile."""
        while True:
            try:
                result = action(*arguments)
            except ssl.SSLWantReadError:
                self._send(self._to_send.read())
                if data := self._receive(PIECE):
                    self._received.write(data)
                else:
                    self._received.write_eof()
            else:
                self._send(self._to_send.read())
                return result

    def _send(self, data: bytes) -> None:
        remaining = memoryview(data)
        while remaining:
            self._in_time()
            try:
                remaining = remaining[self._cancellation.sending(self._sock.send, remaining) :]
            except BlockingIOError:
                self._wait(writing=True)

    def _receive(self, most: int) -> bytes:
        while True:
            self._in_time()
            try:
                data = self._sock.recv(most)
            except BlockingIOError:
                self._wait(writing=False)
                continue
            self._taken += len(data)
            if self._taken > MAX_ANSWER_BYTES:
                raise OSError(f"the answer is longer than {MAX_ANSWER_BYTES} bytes")
            return data

    def _in_time(self) -> None:
        """Raise an error after the deadline or a cancellation, even while data still arrives."""
        self._cancellation.check()
        if time.monotonic() > self.deadline:
            raise TimeoutError

    def _wait(self, *, writing: bool) -> None:
        self._cancellation.pause(self.deadline, lambda step: _ready(self._sock, step, writing))


class _Answer(HTTPResponse):
    """An answer that does not close or flush the connection's reader when it is deleted."""

    def close(self) -> None:
        self.fp = None  # type: ignore[assignment]
        super().close()


class _Reader(io.RawIOBase):
    """The received bytes as a file-like object."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        data = self._connection.receive(len(view))
        view[: len(data)] = data
        return len(data)


class Dialer:
    """A factory for connections to one host, used by one thread."""

    def __init__(self, host: str, port: int, cancellation: Cancellation) -> None:
        self._host, self._port = host, port
        self._cancellation = cancellation
        self._lookup: _Lookup | None = None

    def dial(self, deadline: float) -> Connection:
        """Connect to the first address that answers. Raises OSError or TimeoutError if all fail."""
        addresses = self._addresses(deadline)
        trouble = OSError(f"{self._host} has no address")
        for number, address in enumerate(addresses):
            seconds = deadline - time.monotonic()  # a silent address leaves time for others
            share = time.monotonic() + seconds / (len(addresses) - number)
            try:
                return self._connect(address, share, deadline)
            except OSError as error:
                trouble = error
        raise trouble

    def _connect(self, address: tuple[Any, ...], share: float, deadline: float) -> Connection:
        family, kind, protocol, _, end = address
        sock = socket.socket(family, kind, protocol)
        connection = Connection(sock, self._cancellation, share)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                self._cancellation.sending(sock.connect, end)
            except BlockingIOError:
                connection.finish_connecting()
        except BaseException:
            connection.close()
            raise
        connection.deadline = deadline
        return connection

    def _addresses(self, deadline: float) -> list[tuple[Any, ...]]:
        try:
            return _resolve(self._host, self._port, socket.AI_NUMERICHOST)
        except socket.gaierror:
            pass  # it is a host name
        lookup = self._lookup = self._lookup or _Lookup(self._host, self._port)
        self._cancellation.pause(deadline, lookup.done.wait)
        self._lookup = None
        if lookup.error is not None:
            raise lookup.error
        return lookup.addresses


class _Lookup:
    """A name lookup in a separate thread, because the system's lookup cannot be interrupted."""

    def __init__(self, host: str, port: int) -> None:
        self.done = threading.Event()
        self.addresses: list[tuple[Any, ...]] = []
        self.error: OSError | None = None
        self._host, self._port = host, port
        threading.Thread(target=self._run, name="rappor-lookup", daemon=True).start()

    def _run(self) -> None:
        try:
            self.addresses = _resolve(self._host, self._port, 0)
        except (OSError, UnicodeError) as error:
            self.error = OSError(str(error))
        finally:
            self.done.set()


def _resolve(host: str, port: int, flags: int) -> list[tuple[Any, ...]]:
    name = host.encode("ascii")  # text would load Python's codec for international names
    return socket.getaddrinfo(name, port, 0, socket.SOCK_STREAM, 0, flags)


def _ready(sock: socket.socket, seconds: float, writing: bool) -> bool:
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(sock, select.POLLOUT if writing else select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    sockets = [sock]  # on Windows, handle numbers have no limit
    ready = select.select([] if writing else sockets, sockets if writing else [], sockets, seconds)
    return any(ready)
