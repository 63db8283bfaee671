"""Progress bars on stderr; silent where stderr is not a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show how much of `total` is done; yields the function that is told of each further part."""
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=Console(stderr=True), disable=not sys.stderr.isatty()
    ) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.advance(task, done)


@contextmanager
def stage_bars() -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each stage of a job; yields the function that is told (stage, done, total)."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not sys.stderr.isatty()) as progress:
        bars: dict[str, TaskID] = {}

        def show(stage: str, done: int, total: int) -> None:
            if stage not in bars:
                bars[stage] = progress.add_task(stage, total=total)
            progress.update(bars[stage], completed=done, total=total)

        yield show


@contextmanager
def spinner(what: str) -> Iterator[None]:
    """Show that something of unknown length goes on."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not sys.stderr.isatty()
    ) as progress:
        progress.add_task(what, total=None)
        yield
