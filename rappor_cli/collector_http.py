"""Fetch an aggregate from a collector over HTTP, with the standard library only."""

from __future__ import annotations

import json
from datetime import date
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request, urlopen

from rappor_core.aggregate import Aggregate
from rappor_core.errors import RapporError

_TIMEOUT_SECONDS = 60


class CollectorAnswerError(RapporError):
    """The collector could not be reached, or refused."""


def fetch_aggregate(
    collector: str, metric: str, key: str | None, first: date | None, last: date | None
) -> Aggregate:
    """GET /v1/metrics/{metric}/aggregate for the days `first` to `last` (None: as far as served).

    Raises CollectorAnswerError with the collector's own reason.
    """
    if urlsplit(collector).scheme not in ("http", "https"):
        raise CollectorAnswerError(f"{collector!r} is not an http:// or https:// address")
    window = {"from": first and first.isoformat(), "to": last and last.isoformat()}
    query = urlencode({name: day for name, day in window.items() if day})
    url = f"{collector.rstrip('/')}/v1/metrics/{quote(metric, safe='')}/aggregate?{query}"
    headers = {"Accept": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    return Aggregate.from_json(_get(Request(url, headers=headers)))  # noqa: S310  scheme checked


def _get(request: Request) -> bytes:
    try:
        with urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310  scheme checked
            body: bytes = answer.read()
            return body
    except HTTPError as error:
        raise CollectorAnswerError(f"{request.full_url}: {_reason(error)}") from error
    except (URLError, TimeoutError) as error:
        raise CollectorAnswerError(f"{request.full_url}: {error}") from error


def _reason(error: HTTPError) -> str:
    """The `detail` of a problem document, or the status where the body is none."""
    try:
        detail = json.loads(error.read()).get("detail")
    except (ValueError, AttributeError):
        detail = None
    return f"{error.code} {detail or error.reason}"
