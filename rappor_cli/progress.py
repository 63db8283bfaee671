"""Progress bars on stderr; silent where stderr is not a terminal."""

import math
import sys
import time
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

EARLY = 0.03  # of a job, after which the rest can be estimated


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar; yield the function to call with each further amount that is done."""
    with _bars(BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.advance(task, done)


@contextmanager
def estimated_bar(what: str) -> Iterator[Callable[[str, float, float], None]]:
    """Show a progress bar with the time remaining, or a line with an estimate where stderr is not a
    terminal; yield the function to call with (a line to print or "", done, total)."""
    began, estimate = time.monotonic(), ""
    with _bars(BarColumn(), TimeRemainingColumn()) as progress:
        task = progress.add_task(what, total=None)

        def show(line: str, done: float, total: float) -> None:
            nonlocal estimate
            progress.update(task, completed=done, total=total)
            if progress.disable and not estimate and done >= EARLY * total:
                minutes = (time.monotonic() - began) * (total - done) / done / 60
                estimate = f"{what}: about {math.ceil(minutes):,} min to go"
                print(estimate, file=sys.stderr)
            if line:
                print(line, file=sys.stderr, flush=True)  # above the bar

        yield show


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
