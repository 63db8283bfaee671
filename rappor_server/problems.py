"""Errors as problem documents (RFC 9457), by each service's table of errors and status codes."""

import json
import random
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple, cast

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from rappor_core.errors import RapporError, shown
from rappor_server import errors
from rappor_server.logs import Log

_NOT_JSON = {"json_invalid", "model_attributes_type"}
_SECRET = {"key"}  # fields whose values never appear in messages


def first_problem(
    error: ValidationError | RequestValidationError, *, unknown: str = "there is no such field"
) -> tuple[str, str]:
    """Describe the first invalid field.

    Args:
        error: The error from pydantic.
        unknown: The message for a name that does not exist.

    Returns:
        (name, message); the name is "" if several fields conflict.
    """
    first: Mapping[str, Any] = error.errors()[0]
    name, kind, expected = ".".join(map(str, first["loc"])), first["type"], first["msg"]
    if kind == "value_error":  # raised by one of this project's checks
        return name, str(first["ctx"]["error"])
    if kind == "extra_forbidden":
        return name, unknown
    if kind in _NOT_JSON:
        return name, "send a JSON object as Content-Type: application/json"
    if kind == "missing":  # its input is the whole request, which may contain a key
        return name, "it is missing"
    if kind.endswith("too_short"):
        if not first["input"]:
            return name, "it is empty"
        expected = f"{first['ctx']['min_length']} or more are needed"
    if name.rpartition(".")[2] in _SECRET:
        return name, expected
    return name, f"{shown(first['input'])}: {expected[0].lower()}{expected[1:]}"


def request_problem(error: ValidationError | RequestValidationError) -> str:
    """Describe what is wrong with a request, in ASCII."""
    name, message = first_problem(error)
    text = f"{name}: {message}" if name else message
    return text.encode("ascii", "backslashreplace").decode()


PROBLEM_JSON = "application/problem+json"
URN = "urn:rappor-telemetry:problem:"
_RETRY_LATER = frozenset({408, 429, 503})  # statuses whose answers state when to retry

PROBLEM_RESPONSES: dict[int | str, dict[str, Any]] = {  # for every route, as FastAPI documents them
    "default": {
        "description": "A problem document (RFC 9457)",
        "content": {
            PROBLEM_JSON: {
                "schema": {"type": "object", "required": ["type", "title", "status", "detail"]}
            }
        },
    }
}


class ProblemRule(NamedTuple):
    """The answer to errors of one class."""

    kind: type[Exception]
    status: int
    slug: str  # the last part of the document's type
    text: str = ""  # a text that replaces the error's message if that may only be logged


# Rules of both services; a service's own rules come before them.
SHARED_RULES = (
    ProblemRule(errors.BodyTooLargeError, 413, "body-too-large"),
    ProblemRule(errors.BodyTimeoutError, 408, "body-timeout"),
    ProblemRule(errors.RateLimitedError, 429, "rate-limited"),
    ProblemRule(errors.RequestError, 422, "bad-request"),
    ProblemRule(errors.AuthenticationError, 401, "no-valid-key"),
    ProblemRule(errors.NotFoundError, 404, "not-found"),
    ProblemRule(errors.OverloadedError, 503, "overloaded"),
    ProblemRule(
        errors.StorageError,
        503,
        "storage-unavailable",
        "the database is not available; send again later",
    ),
)
_DEFECT = ProblemRule(Exception, 500, "internal", "the server failed; nothing was changed")


def rule_of(error: Exception, rules: Iterable[ProblemRule]) -> ProblemRule:
    """Return the first rule whose class matches an error, or the rule for defects."""
    return next((rule for rule in rules if isinstance(error, rule.kind)), _DEFECT)


class Problems:
    """The conversion of errors to problem documents; server errors are logged."""

    def __init__(self, log: Log, rules: Iterable[ProblemRule], retry_after: int = 5) -> None:
        """Store the rules; `Retry-After` is a random 1 to 3 times `retry_after` seconds."""
        self._log = log
        self._rules = tuple(rules)
        self._retry_after = retry_after

    def answer(self, error: Exception, more: Mapping[str, Any] | None = None) -> Response:
        """Return the problem document for an error, and remove the error's traceback.

        `more` are additional members of the document.
        """
        rule = rule_of(error, self._rules)
        if rule is _DEFECT:
            self._log.crash(error)
        elif rule.status >= 500:
            self._log.warning("request_failed", status=rule.status, reason=str(error))
        errors.drop_traces(error)
        details = error.details if isinstance(error, errors.ServerError) else {}
        detail = rule.text if rule.text and not details else str(error)
        headers = {"WWW-Authenticate": "Bearer"} if rule.status == 401 else {}
        if rule.status in _RETRY_LATER:  # random, so that devices do not all return at once
            seconds = random.randint(self._retry_after, 3 * self._retry_after)
            headers["Retry-After"] = str(seconds)
        return problem(rule.status, rule.slug, detail, {**details, **(more or {})}, headers)

    def add_handlers(self, app: FastAPI) -> None:
        """Make an app answer every error with a problem document."""
        app.add_exception_handler(HTTPException, self.of_http)
        for kind in (RequestValidationError, RapporError, Exception):
            app.add_exception_handler(kind, self._of_error)

    async def of_http(self, request: Request, error: Exception) -> Response:
        """Return the answer to an error from FastAPI itself, such as an unknown route."""
        if isinstance(error.__cause__, RapporError):  # a body that could not be read
            return self.answer(error.__cause__)
        http_error = cast(HTTPException, error)
        route = f"{request.method[:20]!a} {request.url.path[:100]!a}".replace("'", "")
        detail = str(http_error.detail)
        if http_error.status_code == 404:
            detail = f"there is no {route}; GET /openapi.json names every route"
        if http_error.status_code == 405:
            methods = (http_error.headers or {}).get("Allow", "other methods")
            detail = f"there is no {route}; this path has {methods}"
        return problem(http_error.status_code, "http", detail, headers=http_error.headers)

    async def _of_error(self, _request: Request, error: Exception) -> Response:
        if isinstance(error, RequestValidationError):
            error = errors.RequestError(request_problem(error))
        return self.answer(error)


def problem(
    status: int,
    slug: str,
    detail: str,
    details: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return an HTTP problem document (RFC 9457)."""
    document = {
        "type": URN + slug,
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        **(details or {}),
    }
    body = json.dumps(document).encode("ascii")
    return Response(body, status, dict(headers or {}), media_type=PROBLEM_JSON)
