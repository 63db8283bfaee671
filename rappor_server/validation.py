"""Errors of pydantic about settings and requests, put into our own sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from rappor_core.errors import shown

# By pydantic's name of the error: what is expected. {...} are members of its context.
_EXPECTED = {
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a whole number of fewer digits",
    "float_parsing": "a number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "text",
    "string_unicode": "text",
    "path_type": "the path of a file",
    "greater_than": "greater than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
    "enum": "one of {expected}",
    "literal_error": "one of {expected}",
    "date_parsing": "a day such as 2027-06-30",
    "date_from_datetime_parsing": "a day such as 2027-06-30",
    "date_type": "a day such as 2027-06-30",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "string_too_short": "text of {min_length} characters or more",
    "string_too_long": "text of {max_length} characters or fewer",
    "too_short": "a list of {min_length} or more",
    "too_long": "a list of {max_length} or fewer",
}
_SECRET = {"key"}  # fields whose value is in no message


def first_problem(
    error: ValidationError,
    choices: Mapping[str, str],
    *,
    unknown: str = "there is no such setting or field",
) -> tuple[str, str]:
    """The name of the first field that is wrong, and what is wrong with it, as a sentence.

    Args:
        error: what pydantic raised.
        choices: of fields that are bound by a pattern, what may be given.
        unknown: what is said of a name that there is not.

    Returns:
        (name, message); the name is "" where several fields do not go together.
    """
    return _sentence(error.errors(include_url=False)[0], choices, unknown)


def request_problem(error: ValidationError | RequestValidationError) -> str:
    """What is wrong with a request, as a sentence in ASCII."""
    name, message = _sentence(error.errors()[0], {}, "there is no such field")
    text = f"{name}: {message}" if name else message
    return text.encode("ascii", "backslashreplace").decode()


def _sentence(
    first: Mapping[str, Any], choices: Mapping[str, str], unknown: str
) -> tuple[str, str]:
    name = ".".join(map(str, first["loc"]))
    kind, context = first["type"], first.get("ctx", {})
    if kind == "value_error":  # raised by a check of ours, in our words
        return name, str(context["error"])
    if kind == "extra_forbidden":
        return name, unknown
    if kind in ("json_invalid", "model_attributes_type"):
        return name, "send a JSON object as Content-Type: application/json"
    if kind == "missing":  # its input is all that was sent, which may hold a key
        return name, "it is missing"
    if name.rpartition(".")[2] in _SECRET:
        return name, f"it is not {_expected(kind, name, context, choices)}"
    return name, f"{shown(first['input'])} is not {_expected(kind, name, context, choices)}"


def _expected(kind: str, name: str, context: Mapping[str, Any], choices: Mapping[str, str]) -> str:
    if kind == "string_pattern_mismatch" and name in choices:
        return f"one of {choices[name]}"
    return _EXPECTED.get(kind, "a value that is taken here").format_map(context)
