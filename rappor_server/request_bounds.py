"""Limits on request bodies, and on request headers where the HTTP library has no limit."""

import asyncio
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rappor_server.errors import BodyTimeoutError, BodyTooLargeError, RequestError
from rappor_server.problems import problem

MAX_HEAD_BYTES = 64 << 10
_FRAMING = len(b": \r\n")


class CheckedHeads:
    """Middleware that rejects invalid headers, and answers HEAD as GET.

    FastAPI rejects HEAD; uvicorn omits the body. The library limits headers that arrive in parts,
    but not headers that arrive together. A second `Authorization` header would hide one of two
    keys.
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
    """The limits of a request body."""

    max_bytes: int  # as sent
    seconds: float  # until the whole body has arrived

    def check_stated(self, scope: Scope) -> None:
        """Raise BodyTooLargeError if a request's Content-Length exceeds the limit."""
        stated = dict(scope["headers"]).get(b"content-length")
        if stated is not None and stated.isdigit() and int(stated[:20]) > self.max_bytes:
            text = f"the body has {stated[:20].decode()} bytes; the limit is {self.max_bytes}"
            raise BodyTooLargeError(text)

    def bounded(self, receive: Receive) -> Receive:
        """Return an ASGI `receive` that rejects a body which is too large or arrives too slowly.

        It does not store the body. Time starts with the first message. It raises BodyTooLargeError,
        BodyTimeoutError, or RequestError if the body ends early.
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
