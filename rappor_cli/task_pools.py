"""The option of commands that run many tasks in processes of this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

import typer

from archive.pools import LocalPool, Pool, SerialPool

T = TypeVar("T")
R = TypeVar("R")
Workers = Annotated[int | None, typer.Option(min=1, help="Processes; else one a core.")]


def pool_of(work: Callable[[T], R], workers: int | None, preload: Sequence[str] = ()) -> Pool[T, R]:
    """Make the pool that runs `work`: in this process for one worker, else in processes."""
    return SerialPool(work) if workers == 1 else LocalPool(work, workers, preload)
