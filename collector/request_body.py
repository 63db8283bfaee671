"""Reading a request's body: bounded before and after inflation, and in time."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from starlette.types import Receive, Scope

from collector.buffers import Arriving, Buffers
from collector.errors import (
    BodyTimeoutError,
    BodyTooLargeError,
    OverloadedError,
    RequestError,
    UnsupportedMediaError,
)
from collector.http_protocol import BODY_ARRIVED
from collector.limits import network_of
from rappor_core.wire.report import BINARY_CONTENT_TYPE, JSON_CONTENT_TYPE

_GZIP = 31  # zlib's wbits for a gzip header and trailer


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
    if BODY_ARRIVED in scope.get("extensions", ()):  # nothing to wait for, nothing to hold
        body = await _receive_all(receive, bounds.max_bytes, lambda _: None)
    else:
        body = await _receive(receive, sender_of(scope), buffers, bounds)
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


def sender_of(scope: Scope) -> str:
    """The address that a request came from (of IPv6, its /64); "" where there is none."""
    return network_of(scope["client"][0]) if scope.get("client") else ""


async def _receive(receive: Receive, sender: str, buffers: Buffers, bounds: BodyBounds) -> bytes:
    """A body that arrives in pieces: in time, and unless others need its place more."""
    arriving: Arriving | None = None
    try:
        async with asyncio.timeout(bounds.seconds) as deadline:
            with buffers.arriving(sender, deadline) as arriving:
                take = partial(buffers.take, arriving)
                return await _receive_all(receive, bounds.max_bytes, take)
    except TimeoutError:
        if arriving is not None and arriving.evicted:
            raise OverloadedError("the body arrived too slowly; send again later") from None
        raise BodyTimeoutError(
            f"the body did not arrive within {bounds.seconds:g} seconds"
        ) from None


async def _receive_all(receive: Receive, max_bytes: int, take: Callable[[int], None]) -> bytes:
    chunks: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestError("the body ended early")
        chunk, more = message.get("body", b""), message.get("more_body", False)
        size += len(chunk)
        if size > max_bytes:
            raise BodyTooLargeError(f"the body has more than {max_bytes} bytes")
        take(len(chunk))
        chunks.append(chunk)
    return b"".join(chunks)
