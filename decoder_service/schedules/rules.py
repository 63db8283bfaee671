"""Rules for people's schedules: make, change, look at, delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import true
from sqlalchemy.orm import Session

from decoder.kinds.interface import has_candidates, kinds_with
from decoder.options import Operation
from decoder.sources.windows import Each
from decoder_service.jobs.checks import Known, check_job, check_spec, metric_versions
from decoder_service.jobs.known_counts import counts_of_version
from decoder_service.jobs.list_versions import ResolvedSpec
from decoder_service.jobs.rules import Jobs
from decoder_service.jobs.specs import CountSource, JobSpec, WindowSpec, digest
from decoder_service.metrics.rules import Metrics
from decoder_service.people.access import MAX_NAME, AuditedOperations
from decoder_service.people.permissions import SERVICE_ID, Act, Person, require, visible_schedules
from decoder_service.schedules import rows
from decoder_service.schedules.choices import NewSchedule, ScheduleChoices
from decoder_service.schedules.rows import load_windows
from decoder_service.schedules.series import Family, SeriesView, groups_of, view_of
from decoder_service.shell.database import save, visible_row
from decoder_service.shell.errors import ConflictError, QuotaError, RequestError
from decoder_service.shell.models import ScheduleRow, WindowRow

MAX_SCHEDULES = 200  # of a person


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedules(AuditedOperations):
    """Operations on schedules. Each checks the person's role, and shows only what the person may
    see."""

    jobs: Jobs
    metrics: Metrics

    def create(self, person: Person, asked: NewSchedule) -> ScheduleRow:
        """Decode every sealed window of a metric from now on, and those that are sealed already.

        Args:
            person: its owner.
            asked: the name is its own among the owner's; the metric as the collector names it.

        Raises:
            RoleError, RequestError, NotFoundError, QuotaError, ConflictError.
        """
        require(person, Act.ANALYSE)
        spec = self._spec(asked, asked.metric, asked.every, asked.operation)
        counts = self._known(asked.metric)  # asks the collector, which no transaction waits for
        row = ScheduleRow(
            id=self.new_id(),
            name=asked.name,
            owner=person.id,
            metric=asked.metric,
            every=asked.every,
            spec=spec.to_json(),
            enabled=True,
            created=self.now(),
            family=asked.family,
            first_day=None if asked.first_day is None else asked.first_day.isoformat(),
        )
        with self.database.writing() as db:
            self._check(db, person, row, counts)
            if len(rows.load_schedules(db, ScheduleRow.owner == person.id)) >= MAX_SCHEDULES:
                raise QuotaError(f"you have {MAX_SCHEDULES} schedules, as many as one may have")
            save(db, row)
            self.access.note(db, person, "create-schedule", schedule=row.id)
        return row

    def edit(self, person: Person, schedule_id: str, asked: ScheduleChoices) -> ScheduleRow:
        """Change a schedule; metric and length of a window stay.

        With other options or other lists all windows are decoded again; what was found with those
        of before stays, beside. Raises as `create`, and NotFoundError.
        """
        counts = self._known(self.get(person, schedule_id).metric)
        with self.database.writing() as db:
            row = self.one(db, person, schedule_id)
            operation = spec_of_schedule(row).operation
            with db.no_autoflush:  # it is stored when it has passed the checks
                row.name = asked.name
                row.spec = self._spec(asked, row.metric, row.every, operation).to_json()
                row.family = asked.family
                row.first_day = None if asked.first_day is None else asked.first_day.isoformat()
                self._check(db, person, row, counts)
            self.access.note(db, person, "edit-schedule", schedule=schedule_id)
        return row

    def _spec(
        self, asked: ScheduleChoices, metric: str, every: str, operation: Operation
    ) -> JobSpec:
        """What is decoded in each window. Raises RequestError."""
        if self.jobs.settings.collector is None:
            raise RequestError("no collector is set up here; an operator sets `collector`")
        if operation == "series" and every not in list(Each):
            raise RequestError(f"every: a series has windows of a {' or '.join(Each)}")
        return JobSpec(
            operation=operation,
            each=Each(every) if operation == "series" else Each.DAY,
            source=CountSource(collector=WindowSpec(metric=metric)),
            candidates=asked.candidates,
            weights=asked.weights,
            options=asked.options,
        )

    def _known(self, metric: str) -> Known | None:
        """What is known of the latest version of a metric. Raises RequestError for an unknown one.

        The days that are served do not count: a schedule waits for others.
        """
        versions = metric_versions(self.metrics, metric)
        return None if versions is None else [counts_of_version(versions[-1])]

    def _check(self, db: Session, person: Person, row: ScheduleRow, counts: Known | None) -> None:
        """Check that its jobs can succeed, its list is there, and its name is new to the owner."""
        spec = spec_of_schedule(row)
        check_spec(spec)
        for one in counts or ():
            if spec.operation == "decode" and not has_candidates(one.kind or "string"):
                raise RequestError(
                    f"metric {one.metric!a} is of kind {one.kind}, and a schedule decodes strings, "
                    "categories and booleans; make a series of it, or start jobs"
                )
        check_job(spec, [counts])
        self.jobs.resolve(db, person, spec)
        same = (
            (ScheduleRow.owner == row.owner)
            & (ScheduleRow.name == row.name)
            & (ScheduleRow.id != row.id)
        )
        if rows.load_schedules(db, same):
            raise RequestError(f"there is a schedule {row.name!a} of this person already")

    def all(self, person: Person) -> list[ScheduleRow]:
        """A person's own schedules, for an admin all, by name. Raises RoleError."""
        require(person, Act.ANALYSE)
        with self.database.reading() as db:
            return rows.load_schedules(db, visible_schedules(person))

    def get(self, person: Person, schedule_id: str) -> ScheduleRow:
        """A schedule that the person may see. Raises RoleError, NotFoundError."""
        require(person, Act.ANALYSE)
        with self.database.reading() as db:
            return self.one(db, person, schedule_id)

    def windows(self, person: Person, schedule_id: str) -> list[WindowRow]:
        """The windows of a schedule, oldest first. Raises as `get`."""
        self.get(person, schedule_id)
        with self.database.reading() as db:
            return load_windows(db, schedule_id)

    def enable(self, person: Person, schedule_id: str, enabled: bool) -> ScheduleRow:
        """Switch a schedule on or off. Raises as `get`."""
        require(person, Act.ANALYSE)
        with self.database.writing() as db:
            row = self.one(db, person, schedule_id)
            row.enabled = enabled
            self.access.note(db, person, "enable-schedule", schedule=schedule_id, enabled=enabled)
            return row

    def delete(self, person: Person, schedule_id: str) -> None:
        """Delete a schedule with its alarms; its results stay. Raises as `get`."""
        require(person, Act.ANALYSE)
        with self.database.writing() as db:
            if self.one(db, person, schedule_id).owner == SERVICE_ID:
                raise RequestError("the service makes this schedule again; pause it")
            rows.delete_schedule(db, schedule_id)
            self.access.note(db, person, "delete-schedule", schedule=schedule_id)

    def one(self, db: Session, person: Person, schedule_id: str) -> ScheduleRow:
        """A schedule, within a transaction of the caller. Raises NotFoundError."""
        return visible_row(db, ScheduleRow, visible_schedules(person), schedule_id)

    def series(self, person: Person, schedule_id: str) -> list[SeriesView]:
        """The findings of a schedule, by version of the metric and of the list; the read is
        audited.

        Raises as `get`, and QuotaError for more tests than can be corrected together.
        """
        row = self.get(person, schedule_id)
        with self.database.reading() as db:
            groups = groups_of(load_windows(db, schedule_id))
            family, options = Family(row.family), spec_of_schedule(row).options
            if spec_of_schedule(row).operation == "series":
                groups = []  # the tests are those of its result
            found = [view_of(db, family, options, windows) for windows in groups]
        with self.database.writing() as db:
            self.access.note(db, person, "read-schedule", schedule=schedule_id)
        return found

    def add_defaults(self, listed: Sequence[Mapping[str, Any]]) -> None:
        """Make the default schedules: the series by day of each metric whose values are declared.

        listed: versions of metrics, as the collector lists them.
        """
        wanted = {str(version["name"]) for version in listed if _has_default(version)}
        own = ScheduleRow.owner == SERVICE_ID
        with self.database.reading() as db:
            missing = wanted - {row.metric for row in rows.load_schedules(db, own)}
        if not missing:
            return
        try:
            with self.database.writing() as db:
                self.access.know_service(db)
                for metric in sorted(missing):
                    save(db, self._default(metric))
        except ConflictError:  # another process was first
            return

    def _default(self, metric: str) -> ScheduleRow:
        source = CountSource(collector=WindowSpec(metric=metric))
        return ScheduleRow(
            id=self.new_id(),
            name=f"{metric[: MAX_NAME - 7]} by day",
            owner=SERVICE_ID,
            metric=metric,
            every=Each.DAY,
            spec=JobSpec(operation="series", source=source).to_json(),
            enabled=True,
            created=self.now(),
        )

    def every_enabled(self) -> list[ScheduleRow]:
        """The schedules of all people that are switched on."""
        with self.database.reading() as db:
            return rows.load_schedules(db, true() & ScheduleRow.enabled.is_(True))


def _has_default(version: Mapping[str, Any]) -> bool:
    """Whether the service follows a version by itself: no list has to name its values."""
    known, name = counts_of_version(version), str(version["name"])
    if version["state"] != "current" or "/" in name or known.kind not in kinds_with("series"):
        return False
    return known.own_values or not has_candidates(known.kind)


def spec_of_schedule(row: ScheduleRow) -> JobSpec:
    """The specification of a schedule's jobs, for the whole metric at the collector."""
    return JobSpec.model_validate_json(row.spec)


def spec_digest_of(resolved: ResolvedSpec) -> str:
    """SHA-256, in hex, of the options and lists by which a schedule decodes its windows."""
    spec = resolved.spec
    shown = spec.model_dump(mode="json", include={"options"})
    given = spec.candidates.model_dump(mode="json", include={"numbers", "dates"})
    return digest(shown, given, *resolved.digests)


def shown_schedule(row: ScheduleRow) -> dict[str, Any]:
    """The properties of a schedule that its owner sees."""
    spec = spec_of_schedule(row).model_dump(mode="json")
    return {
        "id": row.id,
        "name": row.name,
        "metric": row.metric,
        "every": row.every,
        "operation": spec["operation"],
        "family": row.family,
        "first_day": row.first_day,
        "enabled": row.enabled,
        "candidates": spec["candidates"],
        "weights": spec["weights"],
        "options": spec["options"],
    }
