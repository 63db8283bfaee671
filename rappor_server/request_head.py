"""Bounds on heads of requests that the HTTP library leaves open."""

from __future__ import annotations

from starlette.responses import Response
from starlette.types import Scope

from rappor_server.problems import problem

MAX_HEAD_BYTES = 64 << 10
_FRAMING = len(b": \r\n")


def refuse_head(scope: Scope) -> Response | None:
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
