"""Errors of pydantic about settings and requests, as a sentence that names field and value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from rappor_core.errors import shown

_NOT_JSON = {"json_invalid", "model_attributes_type"}
_SECRET = {"key"}  # fields whose value is in no message


def first_problem(
    error: ValidationError | RequestValidationError,
    choices: Mapping[str, str],
    *,
    unknown: str = "there is no such setting or field",
) -> tuple[str, str]:
    """Describe the first field that is wrong.

    Args:
        error: What pydantic raised.
        choices: The values of fields that are bound by a pattern.
        unknown: The message for a name that does not exist.

    Returns:
        (name, message); the name is "" where several fields do not go together.
    """
    first: Mapping[str, Any] = error.errors()[0]
    name, kind, expected = ".".join(map(str, first["loc"])), first["type"], first["msg"]
    if kind == "value_error":  # raised by a check of ours
        return name, str(first["ctx"]["error"])
    if kind == "extra_forbidden":
        return name, unknown
    if kind in _NOT_JSON:
        return name, "send a JSON object as Content-Type: application/json"
    if kind == "missing":  # its input is all that was sent, which may hold a key
        return name, "it is missing"
    if kind == "string_pattern_mismatch" and name in choices:
        expected = f"it should be one of {choices[name]}"
    if name.rpartition(".")[2] in _SECRET:
        return name, expected
    return name, f"{shown(first['input'])}: {expected[0].lower()}{expected[1:]}"


def request_problem(error: ValidationError | RequestValidationError) -> str:
    """Describe what is wrong with a request, in ASCII."""
    name, message = first_problem(error, {}, unknown="there is no such field")
    text = f"{name}: {message}" if name else message
    return text.encode("ascii", "backslashreplace").decode()
