"""The candidates that `rappor decode` was told to look for."""

from __future__ import annotations

import re
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from decoder import Candidates, metric_candidates
from decoder.candidates.cache import cached_positions
from decoder.candidates.files import column_taken
from decoder.formats.google_rappor import read_map
from rappor_cli.days import read_day
from rappor_cli.progress import stage_bars
from rappor_cli.text import plain
from rappor_core.aggregate import Aggregate
from rappor_core.errors import shown
from rappor_core.params import RapporParams

_NUMBER = re.compile("-?[0-9]{1,18}")


def given_candidates(
    source: Aggregate,
    path: Path | None,
    column: str | None,
    numbers: str | None,
    dates: str | None,
    map_file: Path | None,
    cache: Path | None,
) -> Candidates:
    """The one list that was given, or the metric's own categories."""
    given = [name for name in (path, numbers, dates, map_file) if name]
    if len(given) > 1:
        raise typer.BadParameter("give one of --candidates, --numbers, --dates and --map")
    if map_file and cache:
        raise typer.BadParameter("--cache keeps bits that are hashed; those of --map are given")
    if map_file:
        return read_map(map_file, source.params)
    if path:
        listed = Candidates.from_file(path, column)
        _say(column_taken(path, column))
    elif numbers:
        listed = Candidates.numbers(*_whole_numbers(numbers))
    elif dates:
        first, _, last = dates.partition(":")
        listed = Candidates.dates(*(day for day in (read_day(first), read_day(last)) if day))
    else:
        listed = metric_candidates(source)
    return _with_cache(listed, source.params, cache) if cache else listed


def _with_cache(candidates: Candidates, params: RapporParams, folder: Path) -> Candidates:
    """The candidates with their bits from the cache; what is odd about it is said on stderr."""
    with stage_bars() as progress:
        known, note = cached_positions(candidates, params, folder, progress)
    _say(note)
    return known


def _say(note: str | None) -> None:
    """A note on stderr, if there is one."""
    if note:
        Console(stderr=True).print(Text.assemble(("note ", "yellow"), plain(note)), soft_wrap=True)


def _whole_numbers(text: str) -> list[int]:
    parts = text.split(":")
    if len(parts) not in (2, 3) or not all(_NUMBER.fullmatch(part) for part in parts):
        raise typer.BadParameter(
            f"{shown(text)} is not FIRST:LAST or FIRST:LAST:STEP in numbers of at most 18 digits"
        )
    return [int(part) for part in parts]
