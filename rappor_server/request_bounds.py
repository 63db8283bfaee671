"""Bounds on requests: on heads, where the HTTP library leaves them open, and on bodies."""

import asyncio
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rappor_server.errors import BodyTimeoutError, BodyTooLargeError, RequestError
from rappor_server.problems import problem

MAX_HEAD_BYTES = 64 << 10
_FRAMING = len(b": \r\n")


class CheckedHeads:
    """Middleware that refuses heads which are not accepted, and answers HEAD as GET.

    FastAPI refuses HEAD; uvicorn leaves the body out. The library bounds a head of which a part
    has arrived, not one that arrived whole, and a second `Authorization` header would hide one of
    two keys.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        app = self._app
        if scope["type"] == "http":
            names = [name for name, _ in scope["headers"]]
            size = len(scope["path"]) + len(scope["query_string"])
            size += sum(len(name) + len(value) + _FRAMING for name, value in scope["headers"])
            if size > MAX_HEAD_BYTES:
                text = f"the headers have more than {MAX_HEAD_BYTES} bytes"
                app = problem(431, "head-too-large", text)
            elif names.count(b"authorization") > 1:
                text = "the request has two Authorization headers; send one"
                app = problem(400, "two-keys", text)
            elif scope["method"] == "HEAD":
                scope = {**scope, "method": "GET"}
        await app(scope, receive, send)


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

    def bounded(self, receive: Receive) -> Receive:
        """Return an ASGI `receive` that refuses a body which is too large or arrives too slowly; it
        stores no byte of it. The time begins when the first message is asked for.

        It raises BodyTooLargeError, BodyTimeoutError, and RequestError where the body ends early.
        """
        deadline: float | None = None
        remaining, is_whole = self.max_bytes, False

        async def next_message() -> Message:
            nonlocal deadline, remaining, is_whole
            if is_whole:
                return await receive()
            if deadline is None:
                deadline = asyncio.get_running_loop().time() + self.seconds
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                text = f"the body did not arrive within {self.seconds:g} seconds"
                raise BodyTimeoutError(text) from None
            if message["type"] == "http.disconnect":
                raise RequestError("the body ended early")
            remaining -= len(message.get("body", b""))
            is_whole = not message.get("more_body", False)
            if remaining < 0:
                raise BodyTooLargeError(f"the body has more than {self.max_bytes} bytes")
            return message

        return next_message
