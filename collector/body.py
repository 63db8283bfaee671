"""Reading a request's body: bounded before and after inflation, and in time."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.types import Receive, Scope

from collector.errors import (
    BodyTimeoutError,
    BodyTooLargeError,
    OverloadedError,
    RequestError,
    UnsupportedMediaError,
)
from collector.protocol import BODY_ARRIVED
from rappor_core.report import BINARY_CONTENT_TYPE, JSON_CONTENT_TYPE

_GZIP = 31  # zlib's wbits for a gzip header and trailer


class Buffers:
    """Bytes of all bodies that are arriving, or are inflated and not yet read, bounded together.

    Bytes and not requests are counted, so that many slow senders hold nobody else up.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held = 0

    def take(self, size: int) -> None:
        """Hold `size` more bytes. Raises OverloadedError over the bound."""
        if self._held + size > self._max_bytes:
            raise OverloadedError("too many bodies are arriving at once; send again later")
        self._held += size

    def give(self, size: int) -> None:
        """Hold them no longer."""
        self._held -= size

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Hold `size` bytes for a while."""
        self.take(size)
        try:
            yield
        finally:
            self.give(size)


@dataclass(frozen=True, slots=True)
class BodyBounds:
    """max_bytes: as sent.  max_inflated: of one that is gzip.  seconds: until it has arrived."""

    max_bytes: int
    max_inflated: int
    seconds: float


async def read_body(scope: Scope, receive: Receive, buffers: Buffers, bounds: BodyBounds) -> bytes:
    """The body of a request, inflated. Raises RequestError and its kinds, OverloadedError."""
    headers = dict(scope["headers"])
    is_gzip = _is_gzip(headers.get(b"content-encoding"))
    _check_length(headers.get(b"content-length"), bounds.max_bytes)
    seconds = None if BODY_ARRIVED in scope.get("extensions", ()) else bounds.seconds
    body = await _receive(receive, buffers, bounds.max_bytes, seconds)
    return inflate(body, bounds.max_inflated) if is_gzip else body


def _is_gzip(encoding: bytes | None) -> bool:
    if encoding is None:
        return False
    name = encoding.decode("latin-1").strip().lower()
    if name not in ("identity", "gzip"):
        raise UnsupportedMediaError(f"content encoding {name[:40]!a} is not gzip or identity")
    return name == "gzip"


def media_type(content_type: bytes | None) -> str:
    """JSON's or our binary form's media type. Raises UnsupportedMediaError for any other."""
    name, _, parameters = (content_type or b"").decode("latin-1").partition(";")
    name = name.strip().lower()
    if name not in (JSON_CONTENT_TYPE, BINARY_CONTENT_TYPE):
        raise UnsupportedMediaError(
            f"content type {name[:80]!a} is neither {JSON_CONTENT_TYPE} nor {BINARY_CONTENT_TYPE}"
        )
    parameters = parameters.strip().lower().replace('"', "")
    if parameters not in ("", "charset=utf-8"):
        raise UnsupportedMediaError(f"content type parameter {parameters[:40]!a} is not taken")
    return name


def inflate(body: bytes, max_bytes: int) -> bytes:
    """One gzip member, bounded while it is inflated: a bomb costs no more than the bound."""
    inflater = zlib.decompressobj(_GZIP)
    try:
        plain = inflater.decompress(body, max_bytes + 1)
    except zlib.error:
        raise RequestError("the body is not gzip, as its content encoding says") from None
    if len(plain) > max_bytes:
        raise BodyTooLargeError(f"the body inflates to more than {max_bytes} bytes")
    if not inflater.eof or inflater.unused_data:
        raise RequestError("the gzip body ends early, or something follows it")
    return plain


def _check_length(stated: bytes | None, max_bytes: int) -> None:
    if stated is not None and stated.isdigit() and int(stated[:20]) > max_bytes:
        raise BodyTooLargeError(f"the body has {stated[:20].decode()} bytes; {max_bytes} are taken")


async def _receive(
    receive: Receive, buffers: Buffers, max_bytes: int, seconds: float | None
) -> bytes:
    if seconds is None:
        return await _receive_all(receive, buffers, max_bytes)
    try:
        async with asyncio.timeout(seconds):
            return await _receive_all(receive, buffers, max_bytes)
    except TimeoutError:
        raise BodyTimeoutError(f"the body did not arrive within {seconds:g} seconds") from None


async def _receive_all(receive: Receive, buffers: Buffers, max_bytes: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    more = True
    try:
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise RequestError("the body ended early")
            chunk, more = message.get("body", b""), message.get("more_body", False)
            buffers.take(len(chunk))
            size += len(chunk)
            if size > max_bytes:
                raise BodyTooLargeError(f"the body has more than {max_bytes} bytes")
            chunks.append(chunk)
    finally:
        buffers.give(size)
    return b"".join(chunks)
