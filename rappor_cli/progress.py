"""Progress bars on stderr; silent if stderr is not a terminal."""

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

EARLY = 0.03  # the completed fraction of a job from which the rest can be estimated


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar; yield a function to call with each additional completed amount."""
    with _bars(BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.advance(task, done)


@contextmanager
def stage_bars() -> Iterator[Callable[[str, float, float], None]]:
    """Show a progress bar for each stage; yield a function to call with (stage, done, total).

    If stderr is not a terminal, print an estimate if a stage takes a minute or more.
    """
    with _bars(BarColumn(), TimeElapsedColumn(), TimeRemainingColumn()) as progress:
        bars: dict[str, TaskID] = {}
        began: dict[str, float] = {}  # start times of stages without an estimate

        def show(stage: str, done: float, total: float) -> None:
            if stage not in bars:
                bars[stage] = progress.add_task(stage, total=total)
                began[stage] = time.monotonic()
            progress.update(bars[stage], completed=done, total=total)
            if progress.disable and stage in began and done >= EARLY * total:
                minutes = (time.monotonic() - began.pop(stage)) * (total - done) / done / 60
                if minutes >= 1:
                    print(f"{stage}: about {minutes:,.0f} min to go", file=sys.stderr)

        yield show


@contextmanager
def spinner(what: str) -> Iterator[None]:
    """Show that a task of unknown length is in progress."""
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
