"""The page of the service's state, for admins: what does not go on, and what to do about it."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from starlette.responses import Response

from decoder_service.metrics.rules import NO_COLLECTOR, MetricViews
from decoder_service.people.permissions import Act, require
from decoder_service.schedules.status import ScheduleState, ScheduleStatus
from decoder_service.shell.health import ServiceCounts, counts_of
from decoder_service.shell.models import ScheduleRow
from decoder_service.shell.service import DecoderService
from decoder_service.shell.versions import decoder_version
from decoder_service.shell.web import Visit
from decoder_service.shell.web import router as new_router

LONG_WAIT = 3600.0  # seconds of a queued job that are told
LOW_SPACE = 0.1  # part of a disk
router = new_router()


@dataclass(frozen=True)
class StateWarning:
    """Something that needs an admin. where: the page that says more, or ""."""

    text: str
    where: str = ""


@dataclass(frozen=True)
class DatabaseSize:
    """Of an SQLite database: its bytes, and those free on its disk, of how many."""

    size: int
    free: int
    disk: int


@router.get("/state")
def state(visit: Visit) -> Response:
    """The page of the state of workers, jobs, schedules, collector and database."""
    require(visit.person, Act.ADMINISTER)
    service = visit.service
    counts = counts_of(service)
    metrics = service.metrics.all(visit.person)
    rows = service.schedules.all(visit.person)
    schedules = list(zip(rows, service.statuses.of_rows(rows), strict=True))
    size = database_size(service)
    return visit.render(
        "state.html.j2",
        findings=list(_findings(service, counts, metrics, schedules, size)),
        counts=counts,
        schedule_states=Counter(one.state.value for _, one in schedules),
        collector=service.settings.collector,
        metrics=len({view.name.partition("/")[0] for view in metrics.metrics if view.listed}),
        size=size,
        dialect=service.database.engine.dialect.name,
        version=decoder_version(),
    )


def _findings(
    service: DecoderService,
    counts: ServiceCounts,
    metrics: MetricViews,
    schedules: list[tuple[ScheduleRow, ScheduleStatus]],
    size: DatabaseSize | None,
) -> Iterator[StateWarning]:
    """What does not go on, the worst first."""
    if size is not None and size.free < LOW_SPACE * size.disk:
        yield StateWarning("less than a tenth of the database's disk is free: make room")
    if not counts.workers:
        yield StateWarning("no worker lives, so that jobs wait: start rappor decoder worker")
    if service.settings.collector is None:
        yield StateWarning(NO_COLLECTOR)
    elif metrics.problem:
        yield StateWarning(metrics.problem)
    if counts.oldest_queued > LONG_WAIT:
        waited = timedelta(seconds=round(counts.oldest_queued))
        yield StateWarning(
            f"a job has waited for {waited}: add workers or slots", "/jobs?state=queued"
        )
    for row, status in schedules:
        if status.state is ScheduleState.BLOCKED:
            yield StateWarning(f"schedule {row.name}: {status.reason}", f"/schedules/{row.id}")
    if counts.events.get("failed"):
        number = counts.events["failed"]
        yield StateWarning(f"{number} messages of alarms were given up", "/schedules")


def database_size(service: DecoderService) -> DatabaseSize | None:
    """The size of an SQLite database; None of another, which its own server tells."""
    name = service.database.engine.url.database
    if service.database.engine.dialect.name != "sqlite" or not name:
        return None
    path = Path(name)
    files = (path, path.with_name(f"{path.name}-wal"))
    disk = shutil.disk_usage(path.parent)
    return DatabaseSize(sum(one.stat().st_size for one in files if one.exists()),
                        disk.free, disk.total)  # fmt: skip
