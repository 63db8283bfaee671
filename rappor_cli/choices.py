"""Options that take one of a few words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import typer


def one_of(option: str, value: str, choices: Iterable[str]) -> Any:
    """`value` if it is one of `choices`; otherwise wrong usage (exit 2) that lists them."""
    choices = tuple(choices)
    if value not in choices:
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(choices)}", param_hint=option)
    return value
