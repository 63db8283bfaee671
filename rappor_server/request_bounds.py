"""Bounds on requests: on heads, where the HTTP library leaves them open, and on bodies."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rappor_server.errors import BodyTimeoutError, BodyTooLargeError, RequestError
from rappor_server.problems import problem

MAX_HEAD_BYTES = 64 << 10
_FRAMING = len(b": \r\n")


def _refuse_head(scope: Scope) -> Response | None:
    """The answer to a head that is not accepted; None for any other.

    The library bounds a head of which a part has arrived, not one that arrived whole, and a second
    `Authorization` header would hide one of two keys.
    """
    if scope["type"] != "http":
        return None
    headers = scope["headers"]
    size = len(scope["path"]) + len(scope["query_string"])
    size += sum(len(name) + len(value) + _FRAMING for name, value in headers)
    if size > MAX_HEAD_BYTES:
        return problem(431, "head-too-large", f"the headers have more than {MAX_HEAD_BYTES} bytes")
    if sum(name == b"authorization" for name, _ in headers) > 1:
        return problem(400, "two-keys", "the request has two Authorization headers; send one")
    return None


class CheckedHeads:
    """Middleware that refuses heads which are not accepted, and answers HEAD as GET.

    FastAPI refuses HEAD; uvicorn leaves the body out.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope.get("method") == "HEAD":
            scope = {**scope, "method": "GET"}
        await (_refuse_head(scope) or self._app)(scope, receive, send)


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
            raise BodyTimeoutError(
                f"the body did not arrive within {self._bounds.seconds:g} seconds"
            ) from None
        if message["type"] == "http.disconnect":
            raise RequestError("the body ended early")
        self._size += len(message.get("body", b""))
        self._is_whole = not message.get("more_body", False)
        if self._size > self._bounds.max_bytes:
            raise BodyTooLargeError(f"the body has more than {self._bounds.max_bytes} bytes")
        return message
