"""Parsers of numbers as people write them (1e6, 5M, 20k, 2 %), and of days."""

import re
from datetime import date
from typing import overload

import typer

# matches 1,000,000 and 1 000 000, but not 0,001 or 1,5M
_THOUSANDS = re.compile(r"\A[1-9]\d{0,2}([, ]\d{3})+(?![\d, ]*\d)")


def number(text: str | float) -> float:
    """Parse 1e6, 1_000_000, 1,000,000, 5M, 20k or 2 %; reject a decimal comma."""
    if isinstance(text, float):  # an option's default
        return text
    plainly = text.strip().replace("_", "").lower()
    plainly = _THOUSANDS.sub(lambda match: re.sub("[, ]", "", match.group()), plainly)
    for ending, factor in (("%", 0.01), ("k", 1e3), ("m", 1e6), ("bn", 1e9)):
        if plainly.endswith(ending):
            plainly, scale = plainly.removesuffix(ending).strip(), factor
            break
    else:
        scale = 1.0
    try:
        return round(float(plainly) * scale, 12)
    except (ValueError, OverflowError):
        point = "; use a decimal point, not a comma" if "," in plainly else ""
        raise typer.BadParameter(
            f"{text!r} is not a number such as 0.01, 1%, 1e6 or 5M{point}"
        ) from None


def people(text: str | int) -> int:
    """Parse a number of people or devices, from 1 to 10^12."""
    count = number(float(text) if isinstance(text, int) else text)
    if not (1 <= count <= 1e12 and count == int(count)):
        raise typer.BadParameter(f"{text!r} is not a whole number from 1 to 10^12")
    return int(count)


@overload
def read_day(text: str) -> date: ...
@overload
def read_day(text: None) -> None: ...
@overload
def read_day(text: str | None) -> date | None: ...
def read_day(text: str | None) -> date | None:
    """Parse a date written YYYY-MM-DD; any other text is wrong usage (exit 2)."""
    if text is None:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = None
    if day is None or day.isoformat() != text:
        raise typer.BadParameter(f"{text!r} is not a day YYYY-MM-DD")
    return day
