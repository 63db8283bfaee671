"""The options of commands that run many tasks in processes or on a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Annotated, TypeVar

import typer

from archive.pools import DaskPool, LocalPool, SerialPool

T = TypeVar("T")
R = TypeVar("R")


class ExecutorName(StrEnum):
    """Names of the executors (`--executor`)."""

    LOCAL = "local"
    DASK = "dask"


ExecutorOption = Annotated[
    ExecutorName, typer.Option(help="Processes of this machine, or a Dask cluster.")
]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes here; else one a core.")]
Scheduler = Annotated[str | None, typer.Option(help="The Dask scheduler, tcp://HOST:8786.")]


def pool_of(
    work: Callable[[T], R],
    executor: ExecutorName,
    workers: int | None,
    scheduler: str | None,
    preload: Sequence[str] = (),
) -> Callable[[Iterable[T]], Iterator[tuple[T, R]]]:
    """Make the function that runs tasks by the chosen executor. Raises a usage error for options
    that do not go together."""
    if (executor is ExecutorName.DASK) != (scheduler is not None):
        raise typer.BadParameter("--executor dask and --scheduler tcp://HOST:PORT go together")
    if scheduler is not None:
        if workers is not None:
            raise typer.BadParameter("--workers is of this machine; a cluster has its own")
        return DaskPool(work, scheduler).run
    if workers == 1:
        return SerialPool(work).run
    return LocalPool(work, workers, preload).run
