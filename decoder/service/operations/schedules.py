"""Schedules as people see them: what is decoded in every window, and what was found so far."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
from sqlalchemy import Connection, true

from decoder.service.clock import Clock
from decoder.service.errors import NotFoundError, QuotaError, RequestError
from decoder.service.operations.access import MAX_NAME, Access
from decoder.service.operations.families import (
    Family,
    WindowTests,
    decided,
    level_in_words,
    read_tests,
)
from decoder.service.operations.jobs import Jobs
from decoder.service.operations.periods import Every
from decoder.service.operations.permissions import Act, Person, require, visible_schedules
from decoder.service.specs import CandidateSpec, Choices, JobSpec, Kind, Source, Window, digest
from decoder.service.store import schedules as rows
from decoder.service.store.engine import Database
from decoder.service.store.models import schedules as table
from decoder.service.store.results import load_file
from decoder.service.store.schedule_windows import WindowRow, WindowState, load_windows
from decoder.service.store.schedules import ScheduleRow

MAX_SCHEDULES = 200  # of a person
MOST_VALUES = 1000  # of a series that is shown


@dataclass(frozen=True, slots=True)
class SeriesView:
    """What a schedule found in the windows of one question. rows: of each value in each window."""

    windows: list[WindowRow]
    rows: list[dict[str, Any]]
    level: dict[str, Any]
    left_out: int  # values beyond MOST_VALUES


@dataclass(frozen=True, slots=True)
class Schedules:
    """What people may do with schedules. Each call asks for the role, and sees what it may."""

    database: Database
    clock: Clock
    random_bytes: Callable[[int], bytes]
    access: Access
    jobs: Jobs

    def create(
        self,
        person: Person,
        name: str,
        metric: str,
        every: Every,
        candidates: CandidateSpec,
        options: Choices,
        family: Family = Family.WINDOW,
        first_day: date | None = None,
    ) -> ScheduleRow:
        """Decode every sealed window of a metric from now on, and those that are sealed already.

        Args:
            person: its owner.
            name: of the schedule, its own among the owner's.
            metric: as the collector names it.
            every: length of a window.
            candidates: with a list and no version, each new version decodes all windows again.
            options: of each decoding; `alpha` is the level of the family.
            family: over what the level holds.
            first_day: nothing before it is decoded.

        Raises:
            RoleError, RequestError, NotFoundError, QuotaError, ConflictError.
        """
        require(person, Act.ANALYSE)
        if not name or len(name) > MAX_NAME or not name.isprintable() or name != name.strip():
            raise RequestError(f"name {name[:60]!a}: 1 to {MAX_NAME} printable characters")
        if not self.jobs.limits.has_collector:
            raise RequestError("no collector is set up here; an operator sets `collector`")
        spec = JobSpec(
            kind=Kind.DECODE,
            source=Source(collector=Window(metric=metric)),
            candidates=candidates,
            options=options,
        )
        row = ScheduleRow(
            id=self.random_bytes(8).hex(),
            name=name,
            owner=person.id,
            metric=metric,
            every=every,
            spec=spec.to_json(),
            enabled=True,
            created=self.clock().timestamp(),
            family=family,
            first_day=None if first_day is None else first_day.isoformat(),
        )
        with self.database.change() as connection:
            self.jobs.pinned(connection, person, spec)  # that its list is there
            if len(rows.load_schedules(connection, table.c.owner == person.id)) >= MAX_SCHEDULES:
                raise QuotaError(f"you have {MAX_SCHEDULES} schedules, as many as one may have")
            same = (table.c.owner == person.id) & (table.c.name == name)
            if rows.load_schedules(connection, same):
                raise RequestError(f"you have a schedule {name!a} already")
            rows.save_schedule(connection, row)
            self.access.note(connection, person, "create-schedule", schedule=row.id)
        return row

    def all(self, person: Person) -> list[ScheduleRow]:
        """Own schedules, all of an admin, by name. Raises RoleError."""
        require(person, Act.ANALYSE)
        with self.database.read() as connection:
            return rows.load_schedules(connection, visible_schedules(person))

    def get(self, person: Person, schedule_id: str) -> ScheduleRow:
        """A schedule. Raises RoleError, NotFoundError."""
        require(person, Act.ANALYSE)
        with self.database.read() as connection:
            return self.one(connection, person, schedule_id)

    def windows(self, person: Person, schedule_id: str) -> list[WindowRow]:
        """Its windows, oldest first. Raises as `get`."""
        self.get(person, schedule_id)
        with self.database.read() as connection:
            return load_windows(connection, schedule_id)

    def enable(self, person: Person, schedule_id: str, enabled: bool) -> ScheduleRow:
        """Switch a schedule on or off. Raises as `get`."""
        require(person, Act.ANALYSE)
        with self.database.change() as connection:
            self.one(connection, person, schedule_id)
            rows.enable_schedule(connection, schedule_id, enabled)
            self.access.note(
                connection, person, "enable-schedule", schedule=schedule_id, enabled=enabled
            )
            return self.one(connection, person, schedule_id)

    def delete(self, person: Person, schedule_id: str) -> None:
        """Delete a schedule with its alarms; its results stay. Raises as `get`."""
        require(person, Act.ANALYSE)
        with self.database.change() as connection:
            self.one(connection, person, schedule_id)
            rows.delete_schedule(connection, schedule_id)
            self.access.note(connection, person, "delete-schedule", schedule=schedule_id)

    def one(self, connection: Connection, person: Person, schedule_id: str) -> ScheduleRow:
        """A schedule, in a transaction that does more. Raises NotFoundError."""
        which = visible_schedules(person) & (table.c.id == schedule_id)
        found = rows.load_schedules(connection, which)
        if not found:
            raise NotFoundError(f"there is no schedule {schedule_id[:40]!a} that you may see")
        return found[0]

    def series(self, person: Person, schedule_id: str) -> list[SeriesView]:
        """What was found, by version of the metric and of the list; the read is audited.

        Raises as `get`, and QuotaError for more tests than can be corrected together.
        """
        row = self.get(person, schedule_id)
        with self.database.read() as connection:
            groups = groups_of(load_windows(connection, schedule_id))
            found = [_view(connection, row, windows) for windows in groups]
        with self.database.change() as connection:
            self.access.note(connection, person, "read-schedule", schedule=schedule_id)
        return found

    def every_enabled(self) -> list[ScheduleRow]:
        """All schedules that are switched on, of everybody."""
        with self.database.read() as connection:
            return rows.load_schedules(connection, true() & table.c.enabled.is_(True))


def spec_of_schedule(row: ScheduleRow) -> JobSpec:
    """What it decodes; the window is of the collector's whole metric."""
    return JobSpec.model_validate_json(row.spec)


def question_of(spec: JobSpec, list_sha256: str | None) -> str:
    """Digest of what is asked of every window: the options, and the candidates' content."""
    shown = spec.model_dump(mode="json", include={"options"})
    given = spec.candidates.model_dump(mode="json", include={"numbers", "dates"})
    return digest(shown, given, list_sha256)


def groups_of(windows: list[WindowRow]) -> list[list[WindowRow]]:
    """Windows of the same question and version of the metric, oldest first."""
    groups: dict[tuple[str, str], list[WindowRow]] = {}
    for one in windows:
        groups.setdefault((one.digest, one.params_id), []).append(one)
    return list(groups.values())


def load_tests(connection: Connection, windows: list[WindowRow]) -> dict[WindowRow, WindowTests]:
    """The tests of those windows whose results are there."""
    found = {}
    for one in windows:
        if one.state != WindowState.DONE or one.result_id is None:
            continue
        candidates = load_file(connection, one.result_id, "candidates.parquet")
        results = load_file(connection, one.result_id, "results.json")
        if candidates is not None and results is not None:
            found[one] = read_tests(candidates, results)
    return found


def _view(connection: Connection, row: ScheduleRow, windows: list[WindowRow]) -> SeriesView:
    options, family = spec_of_schedule(row).options, Family(row.family)
    read = load_tests(connection, windows)
    tests = dict(zip(read, decided(list(read.values()), family, options.alpha), strict=True))
    held = [one.values[i] for one in tests.values() for i in np.flatnonzero(one.detected)]
    names = list(dict.fromkeys(held))
    shown = set(names[:MOST_VALUES])
    level = level_in_words(family, options, len(tests), sum(len(t.values) for t in tests.values()))
    found = [item for window, one in tests.items() for item in _rows(window, one, shown)]
    return SeriesView(windows, found, level, len(names) - len(shown))


def _rows(window: WindowRow, tests: WindowTests, shown: set[str]) -> list[dict[str, Any]]:
    columns = ("estimate", "std_error", "p_value", "p_adjusted")
    return [
        {"value": value, "first_day": window.first_day, "last_day": window.last_day}
        | {name: _finite(getattr(tests, name)[i]) for name in columns}
        | {"detected": bool(tests.detected[i]), "result_id": window.result_id}
        for i, value in enumerate(tests.values)
        if value in shown
    ]


def _finite(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None


def shown_schedule(row: ScheduleRow) -> dict[str, Any]:
    """A schedule as its owner sees it."""
    spec = json.loads(row.spec)
    return {
        "id": row.id,
        "name": row.name,
        "metric": row.metric,
        "every": row.every,
        "family": row.family,
        "first_day": row.first_day,
        "enabled": row.enabled,
        "candidates": spec["candidates"],
        "options": spec["options"],
    }
