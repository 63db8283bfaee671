"""The OpenAPI documents of both services: FastAPI's, with problem documents and keys.

docs/openapi.json and docs/openapi-decoder.json are their written forms, by `python -m
collector.app` and `python -m decoder_service.shell.app`; tests compare them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute

from rappor_server.problems import PROBLEM_JSON

_PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}


def document(
    app: FastAPI, without_key: Collection[str], routes: Sequence[BaseRoute]
) -> dict[str, Any]:
    """The OpenAPI document of routes.

    Args:
        app: Its title and version are named.
        without_key: Ids of the operations that ask for no key.
        routes: Those that are described.

    Returns:
        The document, as plain values.
    """
    made = get_openapi(title=app.title, version=app.version, routes=routes)
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = _PROBLEM
    made["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    problem = {"$ref": "#/components/schemas/Problem"}
    answer = {
        "description": "A problem document (RFC 9457)",
        "content": {PROBLEM_JSON: {"schema": problem}},
    }
    for methods in made["paths"].values():
        for operation in methods.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = answer
            if operation["operationId"] not in without_key:
                operation["security"] = [{"key": []}]
    return made
