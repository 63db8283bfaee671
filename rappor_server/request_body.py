"""Bodies of requests: bounded in bytes and in the time until they have arrived."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from starlette.types import Message, Receive, Scope

from rappor_server.buffers import Arriving, Buffers
from rappor_server.errors import (
    BodyTimeoutError,
    BodyTooLargeError,
    OverloadedError,
    RequestError,
)
from rappor_server.http_protocol import BODY_RECEIVED
from rappor_server.limits import sender_of

_ENDED_EARLY = "the body ended early"


@dataclass(frozen=True, slots=True)
class BodyBounds:
    """Bounds of a request body. max_bytes: as sent. seconds: until it has arrived whole."""

    max_bytes: int
    seconds: float

    def check_stated(self, scope: Scope) -> None:
        """Raises BodyTooLargeError where the head of a request states more bytes."""
        stated = dict(scope["headers"]).get(b"content-length")
        if stated is not None and stated.isdigit() and int(stated[:20]) > self.max_bytes:
            text = f"the body has {stated[:20].decode()} bytes; {self.max_bytes} are taken"
            raise BodyTooLargeError(text)

    def check_received(self, size: int) -> None:
        """Raises BodyTooLargeError where more bytes were received."""
        if size > self.max_bytes:
            raise BodyTooLargeError(f"the body has more than {self.max_bytes} bytes")

    def too_late(self) -> BodyTimeoutError:
        """The error of a body that did not arrive in time."""
        return BodyTimeoutError(f"the body did not arrive within {self.seconds:g} seconds")


class BoundedReceive:
    """An ASGI `receive` that refuses a body which is too large or arrives too slowly; it stores
    no byte of it.

    The time begins when the first message is asked for.
    """

    def __init__(self, receive: Receive, bounds: BodyBounds) -> None:
        self._receive = receive
        self._bounds = bounds
        self._deadline: float | None = None
        self._size = 0
        self._is_whole = False

    async def __call__(self) -> Message:
        """The next message.

        Raises BodyTooLargeError, BodyTimeoutError, and RequestError where the body ends early.
        """
        if self._is_whole:
            return await self._receive()
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + self._bounds.seconds
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise self._bounds.too_late() from None
        if message["type"] == "http.disconnect":
            raise RequestError(_ENDED_EARLY)
        self._size += len(message.get("body", b""))
        self._is_whole = not message.get("more_body", False)
        self._bounds.check_received(self._size)
        return message


async def receive_body(
    scope: Scope, receive: Receive, buffers: Buffers, bounds: BodyBounds
) -> bytes:
    """Receive a whole body, held in memory that is shared out by address.

    Raises BodyTooLargeError, BodyTimeoutError, OverloadedError, and RequestError of one that ends
    early.
    """
    bounds.check_stated(scope)
    if BODY_RECEIVED in scope.get("extensions", ()):  # nothing to wait for, nothing to hold
        return await _join(receive, bounds, lambda _: None)
    arriving: Arriving | None = None
    try:
        async with asyncio.timeout(bounds.seconds) as deadline:
            with buffers.arriving(sender_of(scope), deadline) as arriving:
                return await _join(receive, bounds, partial(buffers.take, arriving))
    except TimeoutError:
        if arriving is not None and arriving.evicted:
            raise OverloadedError("the body arrived too slowly; send again later") from None
        raise bounds.too_late() from None


async def _join(receive: Receive, bounds: BodyBounds, take: Callable[[int], None]) -> bytes:
    chunks: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestError(_ENDED_EARLY)
        chunk, more = message.get("body", b""), message.get("more_body", False)
        size += len(chunk)
        bounds.check_received(size)
        take(len(chunk))
        chunks.append(chunk)
    return b"".join(chunks)
