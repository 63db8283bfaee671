"""Parse days given as options and arguments."""

from __future__ import annotations

from datetime import date
from typing import overload

import typer


@overload
def read_day(text: str) -> date: ...
@overload
def read_day(text: None) -> None: ...
@overload
def read_day(text: str | None) -> date | None: ...
def read_day(text: str | None) -> date | None:
    """Parse a date written YYYY-MM-DD; anything else is wrong usage (exit 2)."""
    if text is None:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = None
    if day is None or day.isoformat() != text:
        raise typer.BadParameter(f"{text!r} is not a day YYYY-MM-DD")
    return day
