"""Progress bars on stderr; silent where stderr is not a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar; yield the function to call with each further amount that is done."""
    with _bars(BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.advance(task, done)


@contextmanager
def stage_bars() -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar for each stage of a job; yield the function to call with (stage, done,
    total)."""
    with _bars(BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()) as progress:
        bars: dict[str, TaskID] = {}

        def show(stage: str, done: int, total: int) -> None:
            if stage not in bars:
                bars[stage] = progress.add_task(stage, total=total)
            progress.update(bars[stage], completed=done, total=total)

        yield show


@contextmanager
def spinner(what: str) -> Iterator[None]:
    """Show that something of unknown length is running."""
    with _bars(SpinnerColumn(), TimeElapsedColumn(), transient=True) as progress:
        progress.add_task(what, total=None)
        yield


def _bars(*columns: ProgressColumn, transient: bool = False) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        *columns,
        console=Console(stderr=True),
        transient=transient,
        disable=not sys.stderr.isatty(),
    )
