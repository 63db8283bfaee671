"""The options of `rappor decode` that choose the candidates."""

from __future__ import annotations

import re
from pathlib import Path

import typer

from decoder.workflows.decoding import CandidateChoice
from rappor_cli.days import read_day
from rappor_core.errors import shown

_NUMBER = re.compile("-?[0-9]{1,18}")


def candidate_choice(
    path: Path | None,
    column: str | None,
    numbers: str | None,
    dates: str | None,
    map_file: Path | None,
) -> CandidateChoice:
    """Make the choice of candidates from the options, of which one list at most may be given;
    several are wrong usage (exit 2)."""
    given = [name for name in (path, numbers, dates, map_file) if name]
    if len(given) > 1:
        raise typer.BadParameter("give one of --candidates, --numbers, --dates and --map")
    return CandidateChoice(
        file=path,
        column=column,
        numbers=_whole_numbers(numbers) if numbers else None,
        dates=tuple(map(read_day, dates.partition(":")[::2])) if dates else None,
        map_file=map_file,
    )


def _whole_numbers(text: str) -> tuple[int, ...]:
    parts = text.split(":")
    if len(parts) not in (2, 3) or not all(_NUMBER.fullmatch(part) for part in parts):
        raise typer.BadParameter(
            f"{shown(text)} is not FIRST:LAST or FIRST:LAST:STEP in numbers of at most 18 digits"
        )
    return tuple(map(int, parts))
