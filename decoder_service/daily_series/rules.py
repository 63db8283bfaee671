"""The daily series of each metric: queued by the service itself, switched off by an admin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection

from decoder.errors import RemoteError
from decoder.kinds.interface import has_candidates, kinds_with
from decoder_service.daily_series.rows import (
    DailySeriesRow,
    load_daily_series,
    load_daily_series_of,
    store_daily_series,
)
from decoder_service.jobs.known_counts import counts_of_version
from decoder_service.jobs.rows import LIVE, JobState, load_jobs
from decoder_service.jobs.rules import Jobs
from decoder_service.jobs.specs import CandidateSpec, CountSource, JobSpec, WindowSpec, digest
from decoder_service.people.access import SERVICE, Access
from decoder_service.people.permissions import Act, Person, require, visible_results
from decoder_service.results.rows import ResultRow, give_up, load_results
from decoder_service.schedules.sealed_windows import AskCollector
from decoder_service.shell.database import ServiceDatabase
from decoder_service.shell.errors import (
    ConflictError,
    ServiceError,
    StorageError,
)
from decoder_service.shell.models import jobs as job_table
from decoder_service.shell.models import results as result_table

DAYS = 90  # of a series, at most
MOST_QUEUED = 20  # by one tick


class DailySeriesState(StrEnum):
    """The states of a daily series. needs_list: the values of the metric are not declared."""

    OFF = "off"
    NEEDS_LIST = "needs list"
    WAITING = "waiting"
    RUNNING = "running"
    FAILED = "failed"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class DailySeriesView:
    """The daily series of a metric, for a person.

    reason: of the state, in words.  result: the newest one, None where there is none or the
    person may not see it.
    """

    row: DailySeriesRow
    state: DailySeriesState
    reason: str
    result: ResultRow | None


@dataclass(frozen=True, slots=True)
class DailySeries:
    """Operations on daily series. Those of people check the role."""

    database: ServiceDatabase
    access: Access
    jobs: Jobs
    collector: AskCollector | None

    def tick(self) -> dict[str, str]:
        """End series whose jobs are over, and queue those that lack a closed day.

        Returns:
            By metric why its series does not go on.

        Raises:
            StorageError.
        """
        problems: dict[str, str] = {}
        if self.collector is None:
            return problems
        try:
            listed = self.collector.metrics()
        except RemoteError:  # told of schedules, and on every page
            return problems
        with self.database.read() as connection:
            rows = load_daily_series(connection)
        room = MOST_QUEUED
        for version in filter(is_followed, listed):
            name = str(version["name"])
            try:
                row = self._end(rows.get(name) or DailySeriesRow(name))
                room -= bool(room) and self._queue(row, version)
            except ConflictError:  # another process was first
                continue
            except StorageError:
                raise
            except ServiceError as error:
                problems[name] = str(error)
        return problems

    def choose(self, person: Person, metric: str, enabled: bool, list_id: str | None) -> None:
        """Switch a series on or off, and choose the list of values that it looks for.

        list_id: None for a metric whose values are declared.  Raises RoleError, NotFoundError,
        RequestError, ConflictError.
        """
        require(person, Act.ADMINISTER if not enabled else Act.ANALYSE)
        with self.database.change() as connection:
            before = load_daily_series_of(connection, metric)
            require(person, Act.ADMINISTER if not before.enabled else Act.ANALYSE)
            row = replace(before, enabled=enabled, list_id=list_id, asked="", problem="")
            if list_id is not None:
                self.jobs.resolve(connection, person, _spec(row, None))
            if not store_daily_series(connection, before, row):
                raise ConflictError("another person changed this just now; look again")
            self.access.note(
                connection, person, "choose-daily-series", metric=metric, enabled=enabled,
                list=list_id or "",
            )  # fmt: skip

    def all(
        self, person: Person, listed: Sequence[Mapping[str, Any]]
    ) -> dict[str, DailySeriesView]:
        """The series of the current version of each metric, by name.

        listed: versions as the collector lists them. Raises RoleError.
        """
        require(person, Act.READ)
        with self.database.read() as connection:
            rows = load_daily_series(connection)
            ids = [row.result_id for row in rows.values() if row.result_id]
            which = visible_results(person) & result_table.c.id.in_(ids)
            results = {one.id: one for one in load_results(connection, which, len(ids) or 1)}
        views = {}
        for version in filter(is_followed, listed):
            name = str(version["name"])
            row = rows.get(name) or DailySeriesRow(name)
            views[name] = DailySeriesView(
                row, *_state(row, version), results.get(row.result_id or "")
            )
        return views

    def _end(self, row: DailySeriesRow) -> DailySeriesRow:
        """The row of a series without its job, if that is over; stored."""
        if row.job_id is None:
            return row
        with self.database.read() as connection:
            found = load_jobs(connection, job_table.c.id == row.job_id, 1)
        job = found[0] if found else None
        if job is not None and job.state in LIVE:
            return row
        ended = replace(row, job_id=None, problem="the job was deleted")
        if job is not None:
            ended = replace(ended, problem=job.reason or f"the job {job.state}")
        if job is not None and job.state == JobState.DONE and job.result_id:
            ended = replace(ended, result_id=job.result_id, problem="")
        with self.database.change() as connection:
            if not store_daily_series(connection, row, ended):
                raise ConflictError("another process was first")
            if row.result_id not in (None, ended.result_id):
                give_up(connection, str(row.result_id), SERVICE.id)
        return ended

    def _queue(self, row: DailySeriesRow, version: Mapping[str, Any]) -> bool:
        """Queue the series of a metric if a day was closed since, or its list changed; whether."""
        if _state(row, version)[0] not in (DailySeriesState.DONE, DailySeriesState.FAILED,
                                           DailySeriesState.WAITING):  # fmt: skip
            return False
        if not row.enabled or len(_days(version)) < 2:
            return False
        spec = _spec(row, version)
        with self.database.change() as connection:
            self.access.know_service(connection)
            asked = self._digest(connection, spec, version)
        if asked == row.asked:
            return False
        problem, job = "", None
        try:
            job = self.jobs.submit(SERVICE, spec).id
        except StorageError:
            raise
        except ServiceError as error:
            problem = str(error)
        queued = replace(row, asked=asked, job_id=job, problem=problem)
        with self.database.change() as connection:
            if not store_daily_series(connection, row, queued):
                raise ConflictError("another process was first")
        return job is not None

    def _digest(self, connection: Connection, spec: JobSpec, version: Mapping[str, Any]) -> str:
        resolved = self.jobs.resolve(connection, SERVICE, spec)
        params_id = str(version["params_id"])
        return digest(
            params_id, resolved.spec.to_json(), *resolved.digests, self.jobs.limits.version
        )


def is_followed(version: Mapping[str, Any]) -> bool:
    """Whether a version of a metric has a daily series: the current one, of a kind that has."""
    has = version["definition"].get("kind") in kinds_with("series")
    return has and version["state"] == "current" and "/" not in str(version["name"])


def needs_list(version: Mapping[str, Any]) -> bool:
    """Whether the values of a metric are not declared, so that a list must name them."""
    known = counts_of_version(version)
    return has_candidates(known.kind) and not known.own_values


def _state(row: DailySeriesRow, version: Mapping[str, Any]) -> tuple[DailySeriesState, str]:
    if not row.enabled:
        return DailySeriesState.OFF, "an admin switched it off"
    if row.list_id is None and needs_list(version):
        return (
            DailySeriesState.NEEDS_LIST,
            "the values of this metric are not declared: choose the list of values to look for",
        )
    if row.job_id is not None:
        return DailySeriesState.RUNNING, "a job decodes it"
    if row.problem:
        return DailySeriesState.FAILED, row.problem
    if row.result_id is not None:
        return DailySeriesState.DONE, ""
    few = len(_days(version)) < 2
    why = (
        "it begins with the second closed day" if few else "the next check of the service queues it"
    )
    return DailySeriesState.WAITING, why


def _days(version: Mapping[str, Any]) -> range:
    """The ordinals of the days that a version serves, at most `DAYS`."""
    served = version["served"]
    if not served:
        return range(0)
    first, last = (
        date.fromisoformat(served[name]).toordinal() for name in ("first_day", "last_day")
    )
    return range(max(first, last - DAYS + 1), last + 1)


def _spec(row: DailySeriesRow, version: Mapping[str, Any] | None) -> JobSpec:
    """The job of a series. version: None asks for all days."""
    days = _days(version) if version else range(0)
    window = WindowSpec(metric=row.metric)
    if days:
        first = date.fromordinal(days[0])
        window = WindowSpec(
            metric=row.metric, first=first, last=first + timedelta(days=len(days) - 1)
        )
    candidates = CandidateSpec() if row.list_id is None else CandidateSpec(list=row.list_id)
    return JobSpec(operation="series", source=CountSource(collector=window), candidates=candidates)
