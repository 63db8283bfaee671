"""HTTP requests to a collector, whose problem documents become one-line errors."""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.error import URLError
from urllib.parse import quote, urlencode, urlsplit

from decoder.errors import RemoteError
from rappor_core.aggregate import Aggregate
from rappor_core.errors import RapporError
from rappor_core.failures import failure_reason
from rappor_core.text import visible

KEY_VARIABLE = "RAPPOR_KEY"
SERVICE_VARIABLE = "RAPPOR_DECODER_COLLECTOR_KEY"
_SECONDS = 60.0
_MAX_BYTES = 1 << 28  # the maximum size of a response that is read completely
_MAX_PROBLEM = 1 << 20  # bytes of a problem document
_MAX_DETAIL = 2000  # characters of its detail


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """A handler that never follows redirects, because they would send the key to another host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return no request, so that a redirect becomes an HTTPError."""


def ask(collector: str, path: str, **options: Any) -> bytes:
    """Send a request and return the body of the response; for options and errors see `answer_of`.

    Raises RemoteError also if the response exceeds 256 MiB."""
    with answer_of(collector, path, **options) as answer:
        content: bytes = answer.read(_MAX_BYTES + 1)
        length = answer.headers.get("Content-Length", "")
    if length.isdecimal() and len(content) < min(int(length), _MAX_BYTES):
        raise RemoteError(f"what answers at {collector} sends less than it says: try again")
    if len(content) > _MAX_BYTES:
        raise RemoteError(f"what answers at {collector} sends more than {_MAX_BYTES:,} bytes")
    return content


@contextmanager
def answer_of(
    collector: str,
    path: str,
    *,
    method: str = "GET",
    query: dict[str, str | None] | None = None,
    body: bytes | None = None,
    content_type: str = "application/json",
    key: str | None = None,
) -> Iterator[HTTPResponse]:
    """Send a request and yield the response for streaming.

    `key` is RAPPOR_KEY if None. Raises RemoteError with the collector's message."""
    url = collector.rstrip("/") + quote(path)
    if not collector.isprintable() or not collector.startswith(("http://", "https://")):
        raise RemoteError(f"collector {collector!r} is not an http:// or https:// URL")
    parameters = {name: value for name, value in (query or {}).items() if value is not None}
    if parameters:
        url += "?" + urlencode(parameters)
    try:
        urlsplit(url).port  # noqa: B018 (raises for a port above 65535)
        request = urllib.request.Request(url, body, method=method)  # noqa: S310 (checked above)
    except ValueError as error:
        text = f"collector {collector!r} is not the address of a host: {failure_reason(error)}"
        raise RemoteError(text) from error
    if body is not None:
        request.add_header("Content-Type", content_type)
    key = (os.environ.get(KEY_VARIABLE, "") if key is None else key).strip()
    if not key.isascii() or not key.isprintable():
        raise RemoteError(f"{KEY_VARIABLE} contains characters that cannot be in a key")
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    try:
        with urllib.request.build_opener(NoRedirects()).open(request, timeout=_SECONDS) as answer:
            yield answer
    except urllib.error.HTTPError as error:
        raise _refusal(error, collector) from error
    except (URLError, TimeoutError, ConnectionError, HTTPException, ValueError) as error:
        cause = getattr(error, "reason", None) or error
        reason = failure_reason(cause) if isinstance(cause, Exception) else str(cause)
        hint = "check the address, or start it with rappor serve"
        raise RemoteError(f"no collector answers at {collector}: {reason}; {hint}") from error


def ask_json(collector: str, path: str, *members: str, **options: Any) -> dict[str, Any]:
    """Send a request as `ask` does, and parse the response as a JSON object.

    `members` are required. Raises RemoteError on failure, or if they are missing."""
    try:
        document = json.loads(ask(collector, path, **options))
    except (ValueError, RecursionError) as error:
        raise _stranger(collector, failure_reason(error)) from error
    if not isinstance(document, dict) or any(name not in document for name in members):
        missing = members[0] if members else "object"
        raise _stranger(collector, f"its {path} has no {missing!r}, as those of this version have")
    return document


def fetch_aggregate(
    collector: str,
    metric: str,
    *,
    params_id: str | None = None,
    first: date | None = None,
    last: date | None = None,
    key: str | None = None,
) -> Aggregate:
    """Fetch an aggregate from a collector; `key` is RAPPOR_KEY if None. Raises RemoteError."""
    days = {"from": first and first.isoformat(), "to": last and last.isoformat()}
    query = {"params_id": params_id, **days}
    answer = ask(collector, f"/v1/metrics/{metric}/aggregate", query=query, key=key)
    try:
        return Aggregate.from_json(answer)
    except RapporError as error:
        raise _stranger(collector, f"its answer is not an aggregate: {error}") from error


def _stranger(collector: str, why: str, problem: dict[str, Any] | None = None) -> RemoteError:
    hint = "check the address, and any proxy before it"
    return RemoteError(f"what answers at {collector} is not a collector: {why}; {hint}", problem)


def _refusal(error: urllib.error.HTTPError, collector: str) -> RemoteError:
    """Convert a problem document to an error, with a hint on how to send a missing key."""
    if 300 <= error.code < 400:
        text = "it sends on to another address, which is not followed; name that one as collector"
        return RemoteError(f"the collector answered {error.code}: {text}")
    try:
        problem = json.loads(error.read(_MAX_PROBLEM))
        detail = visible(str(problem["detail"])[:_MAX_DETAIL])
    except (ValueError, KeyError, TypeError, RecursionError, OSError, HTTPException):
        return _stranger(collector, f"it answered {error.code} {visible(str(error.reason)[:60])}")
    if error.code == 404 and str(problem.get("type", "")).endswith(":http"):  # it has no such route
        return _stranger(collector, detail, problem)
    if error.code == 401 and not os.environ.get(KEY_VARIABLE):
        detail += f" (set {KEY_VARIABLE}; of a decoder service {SERVICE_VARIABLE})"
    return RemoteError(f"the collector answered {error.code}: {detail}", problem)
