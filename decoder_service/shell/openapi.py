"""The OpenAPI document of the service; docs/openapi-decoder.json is its written form.

Written by `python -m decoder_service.shell.app > docs/openapi-decoder.json`; a test compares
the two.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

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


def document(app: FastAPI, without_key: Collection[str]) -> dict[str, Any]:
    """The OpenAPI document of an app's routes, with problem documents and keys.

    without_key: ids of the operations that ask for none.
    """
    made = get_openapi(title=app.title, version=app.version, routes=app.routes)
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
