"""Problem documents (RFC 9457), and which error has which status code."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from rappor_core.errors import RapporError

PROBLEM_JSON = "application/problem+json"
URN = "urn:rappor-telemetry:problem:"
RETRY_LATER = frozenset({408, 429, 503})  # answers that say when to come back

PROBLEM_RESPONSES: dict[int | str, dict[str, Any]] = {  # of every route, for FastAPI
    "default": {
        "description": "A problem document (RFC 9457)",
        "content": {
            PROBLEM_JSON: {
                "schema": {"type": "object", "required": ["type", "title", "status", "detail"]}
            }
        },
    }
}

# The first class that an error is an instance of decides.
StatusTable = Sequence[tuple[type[RapporError], int, str]]


def status_of(error: Exception, table: StatusTable) -> tuple[int, str]:
    """The status code and the last part of the type of an error's problem document."""
    return next(
        ((status, slug) for kind, status, slug in table if isinstance(error, kind)),
        (500, "internal"),
    )


def routing_detail(status: int, detail: str, method: str, path: str, known: str = "") -> str:
    """The text of an answer about a route that does not exist, or that has another HTTP method.

    detail: what is said of any other status.  known: the methods, as the header Allow has them.
    """
    shown = f"{method[:20]!a} {path[:100]!a}".replace("'", "")
    if status == 404:
        return f"there is no {shown}; GET /openapi.json names every route"
    if status == 405:
        return f"there is no {shown}; this path has {known or 'other methods'}"
    return detail


def problem(
    status: int,
    slug: str,
    detail: str,
    details: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Make an HTTP problem document (RFC 9457)."""
    document = {
        "type": URN + slug,
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        **(details or {}),
    }
    body = json.dumps(document).encode("ascii")
    return Response(body, status, dict(headers or {}), media_type=PROBLEM_JSON)
