"""Bounds of what is sent: bytes of a body, and seconds until it has arrived."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from decoder.service.errors import BodyTimeoutError, BodyTooLargeError, ServiceError
from decoder.service.problems import answer
from rappor_server.logs import Log

UPLOADS = ("/v1/lists", "/v1/aggregates", "/lists")  # paths that take files


@dataclass(frozen=True, slots=True)
class BodyBounds:
    """max_bytes: of most requests.  max_upload: of the paths in UPLOADS.  seconds: to arrive."""

    max_bytes: int
    max_upload: int
    seconds: float


class BodyLimit:
    """Ends a request whose body is too long or too slow with a problem document."""

    def __init__(self, app: ASGIApp, bounds: BodyBounds, log: Log) -> None:
        self._app = app
        self._bounds = bounds
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; what is over the bounds is refused while it arrives."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = self._bounds.max_bytes
        if scope["path"].startswith(UPLOADS):
            most = self._bounds.max_upload
        bounded = _Bounded(receive, most, self._bounds.seconds)
        try:
            bounded.check_length(dict(scope["headers"]).get(b"content-length"))
            await self._app(scope, bounded, _Sending(send, bounded))
        except ServiceError:
            if bounded.refused is None or bounded.answered:
                raise
        if bounded.refused is not None and not bounded.answered:
            await answer(bounded.refused, self._log)(scope, receive, send)


class _Bounded:
    """The messages of a request, counted."""

    def __init__(self, receive: Receive, most: int, seconds: float) -> None:
        self._receive = receive
        self._most = most
        self._seconds = seconds
        self._deadline: float | None = None
        self._size = 0
        self._whole = False
        self.refused: ServiceError | None = None
        self.answered = False

    def check_length(self, declared: bytes | None) -> None:
        """Raises BodyTooLargeError for a declared length above the bound."""
        if declared is not None and declared.isdigit() and int(declared[:19]) > self._most:
            raise self._refuse(BodyTooLargeError(f"a body of {self._most:,} bytes is taken"))

    async def __call__(self) -> Message:
        if self.refused is not None:
            raise self.refused
        if self._whole:
            return await self._receive()
        loop = asyncio.get_running_loop()
        self._deadline = self._deadline or loop.time() + self._seconds
        try:
            message = await asyncio.wait_for(self._receive(), self._deadline - loop.time())
        except TimeoutError:
            text = f"the body did not arrive within {self._seconds:g} seconds"
            raise self._refuse(BodyTimeoutError(text)) from None
        self._size += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        if self._size > self._most:
            raise self._refuse(BodyTooLargeError(f"a body of {self._most:,} bytes is taken"))
        return message

    def _refuse(self, error: ServiceError) -> ServiceError:
        self.refused = error
        return error


class _Sending:
    """Notes that an answer has begun; of a refused body, the app's own answer is left out."""

    def __init__(self, send: Send, bounded: _Bounded) -> None:
        self._send = send
        self._bounded = bounded

    async def __call__(self, message: Message) -> None:
        if self._bounded.refused is not None and not self._bounded.answered:
            return
        self._bounded.answered = True
        await self._send(message)
