"""The pools that sum an archive: as `archive.pools`, with `count_part` as their work."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from archive.pools import DaskPool, LocalPool, Pool, SerialPool
from archive.tasks import PartCounts, SpanTask, count_part

Work = Callable[[SpanTask], PartCounts]
Results = Iterator[tuple[SpanTask, PartCounts]]
Executor = Pool[SpanTask, PartCounts]


class InProcess(SerialPool[SpanTask, PartCounts]):
    """An executor that runs the tasks in this process, one after the other."""

    def __init__(self, work: Work = count_part) -> None:
        super().__init__(work)


class LocalProcesses(LocalPool[SpanTask, PartCounts]):
    """Runs the tasks in processes of this machine. A process that is killed is replaced."""

    def __init__(self, workers: int | None = None, work: Work = count_part) -> None:
        super().__init__(work, workers, ["archive.tasks"])


class DaskCluster(DaskPool[SpanTask, PartCounts]):
    """Runs the tasks as futures of a Dask cluster, whose workers have this package installed."""

    def __init__(self, scheduler: str, work: Work = count_part) -> None:
        super().__init__(work, scheduler)
