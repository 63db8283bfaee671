"""uvicorn's HTTP protocol with the bounds it lacks: on heads, connections and unread answers.

Without the first, one connection could send headers, or trailers behind a body in chunks, for ever
(httptools keeps what it is given). Without the second, idle connections could be held open by the
thousand. Without the third, connections that never read would keep their answers in memory. An
answer leaves in one piece, and a body that came with its head is marked as such.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rappor_server import connections, unsent
from rappor_server.connections import Connections
from rappor_server.limits import network_of
from rappor_server.unsent import Unsent

MAX_HEAD_BYTES = 32 << 10
HEAD_SECONDS = 10.0
SEND_BUFFER_BYTES = 128 << 10  # in the kernel, which doubles it; else it grows to megabytes
UNREAD_SECONDS = 60  # until the kernel gives up what it holds for a reader that takes nothing

_REFUSAL = "HTTP/1.1 431 Request Header Fields Too Large", "content-length: 0", "connection: close"
_TOO_LARGE = "\r\n".join((*_REFUSAL, "", "")).encode("ascii")


BODY_RECEIVED = "rappor.body_received"  # extension in the scope: the body is here already


def connection_state(unread: Unsent, held: Connections) -> dict[str, Any]:
    """The state of a lifespan, with what the connections of a process have in common."""
    return {unsent.KEY: unread, connections.KEY: held}


class OnePiece:
    """A transport that delays the head of an answer until its body is written, so that both
    leave in one system call.

    What is still held when the event loop goes round is written alone.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held = b""

    def write(self, data: bytes) -> None:
        """Hold the first piece of data; send it together with the second one."""
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held + data)
        else:
            self._held = data
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send the piece that is held, unless the connection was closed."""
        if self._held and not self._transport.is_closing():
            held, self._held = self._held, b""
            self._transport.write(held)

    def close(self) -> None:
        """Write what is held, and close."""
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        """Everything else is the transport's own."""
        return getattr(self._transport, name)


def _set_options(connection: socket.socket | None) -> None:
    """Answers leave at once (no 40 ms for a delayed ACK); the kernel holds few bytes of them."""
    if connection is None:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    if connection.family == getattr(socket, "AF_UNIX", None):
        return
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * UNREAD_SECONDS)


class BoundedHttpProtocol(HttpToolsProtocol):
    """Closes a connection with a head too large or slow, an unread answer, or one too many."""

    _in_head = True
    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None
    _unsent: Unsent
    _connections: Connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timeout for the request's head, and ask to be told of every byte that the
        socket cannot take."""
        super().connection_made(cast(asyncio.Transport, OnePiece(transport, self.loop)))
        _set_options(transport.get_extra_info("socket"))
        transport.set_write_buffer_limits(high=0)
        self._unsent = self.app_state[unsent.KEY]
        self._connections = self.app_state[connections.KEY]
        self._connections.begin(self.transport, network_of(self.client[0]) if self.client else "")
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timeouts of the connection."""
        self._stop_timer()
        self._unsent.end(self.transport)
        self._connections.end(self.transport)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the timeout for bytes of an answer that the socket did not take."""
        super().pause_writing()
        self._unsent.begin(self.transport)

    def resume_writing(self) -> None:
        """Note that the peer has taken all bytes that were buffered."""
        self._unsent.end(self.transport)
        super().resume_writing()

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self._in_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field of the head; fields of a trailer are dropped, since they must not pass
        for fields of the head."""
        if self._in_head:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body; only bytes that are not of a body count towards the bound on
        heads."""
        self._head_bytes = 0
        super().on_body(body)

    def on_headers_complete(self) -> None:
        """The request's head has arrived whole: its timeout ends."""
        self._in_head = False
        self._head_bytes = 0
        self._stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request's body has arrived whole, which may be before the request is handled."""
        self.scope["extensions"] = {BODY_RECEIVED: {}}
        self._head_bytes = 0
        if not self.cycle.response_complete:
            self._connections.work(self.transport)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The answer is complete: the bytes that follow are another request, or the rest of the
        body."""
        self._connections.wait(self.transport)
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        """Feed the parser; refuse a head, or a trailer, that grows beyond the bound.

        A head that came whole needs no timer, and most do. What follows an answer (a body that
        nobody waits for, empty lines) has the time of a head, too.
        """
        self._head_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():  # it was not HTTP, say
            return
        if self._head_bytes > MAX_HEAD_BYTES:
            self.transport.write(_TOO_LARGE)
            self.transport.close()
        elif self._in_head or self.cycle.response_complete:
            self._start_timer()

    def _start_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.close()
