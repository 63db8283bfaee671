"""Read the body of a batch: media type, and bounds before and after decompression."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from starlette.types import Receive, Scope

from collector.errors import BodyTooLargeError, RequestError, UnsupportedMediaError
from rappor_core.wire.report import BINARY_CONTENT_TYPE, JSON_CONTENT_TYPE
from rappor_server.request_bounds import BodyBounds, BoundedReceive

_GZIP = 31  # zlib's wbits for a gzip header and trailer


@dataclass(frozen=True, slots=True)
class GzipBounds(BodyBounds):
    """Bounds for compressed bodies. max_inflated: bytes after decompression."""

    max_inflated: int


async def read_body(scope: Scope, receive: Receive, bounds: GzipBounds) -> bytes:
    """Read and decompress the body of a request. Raises RequestError and its kinds."""
    is_gzip = _is_gzip(dict(scope["headers"]).get(b"content-encoding"))
    body = await receive_body(scope, receive, bounds)
    return inflate(body, bounds.max_inflated) if is_gzip else body


async def receive_body(scope: Scope, receive: Receive, bounds: BodyBounds) -> bytes:
    """Receive a whole body as it was sent.

    Raises BodyTooLargeError, also where the head says so, BodyTimeoutError, and RequestError where
    it ends early.
    """
    bounds.check_stated(scope)
    bounded, chunks, more = BoundedReceive(receive, bounds), list[bytes](), True
    while more:
        message = await bounded()
        chunks.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(chunks)


def _is_gzip(encoding: bytes | None) -> bool:
    if encoding is None:
        return False
    name = encoding.decode("latin-1").strip().lower()
    if name not in ("identity", "gzip"):
        raise UnsupportedMediaError(f"content encoding {name[:40]!a} is not gzip or identity")
    return name == "gzip"


def media_type(content_type: bytes | None) -> str:
    """Check that a content type is JSON or the binary form, and return it without parameters.
    Raises UnsupportedMediaError."""
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
    """Decompress one gzip member, bounded while it is decompressed: a bomb costs no more than
    the bound."""
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
