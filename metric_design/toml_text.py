"""A table of `metrics.toml` as text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)  # keys of TOML that need no quotes


def toml_table(name: str, keys: Mapping[str, Any]) -> str:
    """The table `[metrics.NAME]` with these keys, a line each."""
    lines = [f"[metrics.{toml_key(name)}]"]
    lines += [f"{toml_key(key)} = {toml_value(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


def toml_key(name: str) -> str:
    """A key, in quotes where it needs them."""
    return name if _BARE.fullmatch(name) else json.dumps(name)


def toml_value(value: Any) -> str:
    """Text, numbers, dates, lists and inline tables."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=True)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        parts = ", ".join(f"{toml_key(key)} = {toml_value(one)}" for key, one in value.items())
        return f"{{ {parts} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return f"{value!r}"
