"""The operations on people's schedules, and the storage of the values in their windows."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from typing import Any, Literal

from sqlalchemy import ColumnElement, delete, func, insert, select
from sqlalchemy.orm import Session

from decoder.kinds.interface import has_candidates, kinds_with
from decoder.options import Operation
from decoder.sources.windows import Each
from decoder_service.jobs.rules import Jobs, ResolvedSpec
from decoder_service.jobs.specs import (
    CandidateSpec,
    Choices,
    CountSource,
    JobSpec,
    ListSpec,
    MetricName,
    Name,
    StrictModel,
    WindowSpec,
    digest,
)
from decoder_service.metrics.rules import has_own_values
from decoder_service.people.access import MAX_NAME, SERVICE, Resources
from decoder_service.people.permissions import SERVICE_ID, Act, Person, own_rows, require
from decoder_service.schedules.windows import Every, load_windows, spec_of_schedule
from decoder_service.shell.database import save, shown, total
from decoder_service.shell.errors import QuotaError
from decoder_service.shell.models import (
    AlarmRow,
    EventRow,
    PersonRow,
    ScheduleRow,
    WindowRow,
    schedule_values,
)
from rappor_server.errors import ConflictError, RequestError

MAX_SCHEDULES = 200  # Per person
_AT_ONCE = 500


class ScheduleChoices(StrictModel):
    """The properties of a schedule that may be changed later.

    Attributes:
        candidates: The candidate list. If it names no version, all windows are decoded again for
            each new version of the list.
        weights: The list of weights, with the same rule for versions.
        options: The options of each decoding.
        first_day: The first day that is decoded.
    """

    name: Name
    candidates: CandidateSpec = CandidateSpec()
    weights: ListSpec | None = None
    options: Choices = Choices()
    first_day: date | None = None


class NewSchedule(ScheduleChoices):
    """The request for a schedule: a metric, decoded in every sealed window.

    `operation` is `decode` to decode each window once, or `series` to decode the last windows
    together each time."""

    metric: MetricName
    every: Every
    operation: Literal["decode", "series"] = "decode"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedules(Resources[ScheduleRow]):
    """The operations on schedules, each of which checks the person's role and access."""

    model = ScheduleRow
    visible = own_rows(ScheduleRow.owner)
    order = (ScheduleRow.name, ScheduleRow.id)
    jobs: Jobs

    def create(self, person: Person, new: NewSchedule) -> ScheduleRow:
        """Decode all sealed windows of a metric: past windows and, from now on, each new window.

        Args:
            person: The owner of the schedule.
            new: The properties of the schedule. Its name must be new among the owner's schedules;
                its metric has the collector's name.

        Raises:
            RoleError, RequestError, NotFoundError, QuotaError, ConflictError.
        """
        require(person, Act.ANALYZE)
        spec = self._spec(new, new.metric, new.every, new.operation)
        row = self._new(new.name, person.id, new.metric, new.every, spec)
        row.first_day = str(new.first_day) if new.first_day else None
        query = select(func.count()).where(ScheduleRow.owner == person.id)
        with self.database.writing() as db:
            self._check(db, person, row)
            if total(db, query) >= MAX_SCHEDULES:
                raise QuotaError(f"you have {MAX_SCHEDULES} schedules, which is the maximum")
            save(db, row)
            self.access.note(db, person, "create-schedule", schedule=row.id)
        return row

    def edit(self, person: Person, schedule_id: str, new: ScheduleChoices) -> ScheduleRow:
        """Change a schedule except its metric and window length.

        If options or lists change, all windows are decoded again; earlier results are kept. Raises
        the errors of `create`."""
        require(person, Act.ANALYZE)
        with self.database.writing() as db:
            row = self.one(db, person, schedule_id)
            operation = spec_of_schedule(row).operation
            with db.no_autoflush:  # Stored only after the checks
                row.name = new.name
                row.spec = self._spec(new, row.metric, row.every, operation).to_json()
                row.first_day = str(new.first_day) if new.first_day else None
                row.problem = ""
                self._check(db, person, row)
            self.access.note(db, person, "edit-schedule", schedule=schedule_id)
        return row

    def _new(self, name: str, owner: str, metric: str, every: str, spec: JobSpec) -> ScheduleRow:
        return ScheduleRow(
            id=self.new_id(),
            name=name,
            owner=owner,
            metric=metric,
            every=every,
            spec=spec.to_json(),
            enabled=True,
            created=self.now(),
        )

    def _spec(self, new: ScheduleChoices, metric: str, every: str, operation: Operation) -> JobSpec:
        """Return the job specification for each window, without its days. Raises RequestError."""
        if self.jobs.settings.collector is None:
            raise RequestError("no collector is set up here; an operator sets `collector`")
        if operation == "series" and every not in list(Each):
            raise RequestError(f"every: the windows of a series are a {' or '.join(Each)}")
        return JobSpec(
            operation=operation,
            each=Each(every) if operation == "series" else Each.DAY,
            source=CountSource(collector=WindowSpec(metric=metric)),
            candidates=new.candidates,
            weights=new.weights,
            options=new.options,
        )

    def _check(self, db: Session, person: Person, row: ScheduleRow) -> None:
        self.jobs.resolve(db, person, spec_of_schedule(row))
        same = (ScheduleRow.owner == row.owner, ScheduleRow.name == row.name)
        if db.scalar(select(ScheduleRow.id).where(*same, ScheduleRow.id != row.id)):
            raise RequestError(f"this person already has a schedule {row.name!a}")

    def windows(self, person: Person, schedule_id: str) -> list[WindowRow]:
        """Return the windows of a schedule, oldest first. Raises the errors of `get`."""
        self.get(person, schedule_id)
        with self.database.reading() as db:
            return load_windows(db, schedule_id)

    def enable(self, person: Person, schedule_id: str, enabled: bool) -> ScheduleRow:
        """Switch a schedule on or off. Raises the errors of `get`."""
        require(person, Act.ANALYZE)
        with self.database.writing() as db:
            row = self.one(db, person, schedule_id)
            row.enabled = enabled
            self.access.note(db, person, "enable-schedule", schedule=schedule_id, enabled=enabled)
            return row

    def delete(self, person: Person, schedule_id: str) -> None:
        """Delete a schedule, its windows and alarms, but no results. Raises the errors of `get`."""
        require(person, Act.ANALYZE)
        with self.database.writing() as db:
            if self.one(db, person, schedule_id).owner == SERVICE_ID:
                raise RequestError("the service would create this schedule again; pause it instead")
            query = select(AlarmRow.id).where(AlarmRow.schedule_id == schedule_id)
            db.execute(delete(EventRow).where(EventRow.alarm_id.in_(query)))
            for table in (AlarmRow, WindowRow):
                db.execute(delete(table).where(table.schedule_id == schedule_id))
            db.execute(delete(schedule_values).where(schedule_values.c.schedule_id == schedule_id))
            db.execute(delete(ScheduleRow).where(ScheduleRow.id == schedule_id))
            self.access.note(db, person, "delete-schedule", schedule=schedule_id)

    def add_defaults(self, listed: Sequence[Mapping[str, Any]]) -> None:
        """Create a daily series for each metric that needs no list and has no daily series yet.

        The service owns these schedules. `listed` are the versions of the metrics that the
        collector lists."""
        names = set[str]()
        for version in listed:
            definition, name = version["definition"], str(version["name"])
            kind = definition.get("kind")
            if version["state"] != "current" or "/" in name or kind not in kinds_with("series"):
                continue
            if not has_candidates(kind) or has_own_values(definition):  # no list is needed
                names.add(name)
        query = select(ScheduleRow.metric).where(ScheduleRow.owner == SERVICE_ID)
        with self.database.reading() as db:
            missing = names - set(db.scalars(query))
        if not missing:
            return
        try:
            with self.database.writing() as db:
                if db.get(PersonRow, SERVICE.id) is None:
                    namesake = db.scalar(select(PersonRow).where(PersonRow.name == SERVICE.name))
                    name = f"{SERVICE.name} (itself)" if namesake else SERVICE.name
                    save(db, PersonRow(id=SERVICE.id, name=name, created=self.now()))
                for metric in sorted(missing):
                    source = CountSource(collector=WindowSpec(metric=metric))
                    spec = JobSpec(operation="series", source=source)
                    name = f"{metric[: MAX_NAME - 7]} by day"
                    save(db, self._new(name, SERVICE_ID, metric, Each.DAY, spec))
        except ConflictError:  # another process was faster
            return


def spec_digest_of(resolved: ResolvedSpec) -> str:
    """Return the SHA-256, in hex, of a schedule's options and lists."""
    spec = resolved.spec
    options = spec.model_dump(mode="json", include={"options"})
    choices = spec.candidates.model_dump(mode="json", include={"numbers", "dates"})
    return digest(options, choices, *resolved.digests)


def shown_schedule(row: ScheduleRow) -> dict[str, Any]:
    """Return the properties of a schedule that its owner sees."""
    names = {"operation", "candidates", "weights", "options"}
    spec = spec_of_schedule(row).model_dump(mode="json", include=names)
    return shown(row, "id name metric every first_day enabled") | spec


def load_schedules(db: Session, which: ColumnElement[bool]) -> list[ScheduleRow]:
    """Return the schedules that match a condition, ordered by name."""
    by_name = select(ScheduleRow).where(which).order_by(ScheduleRow.name, ScheduleRow.id)
    return list(db.scalars(by_name))


def add_values(db: Session, schedule_id: str, params_id: str, values: Collection[str]) -> list[str]:
    """Record values detected by a schedule; return those never recorded before, in order."""
    new = {sha256(value.encode("utf-8", "surrogatepass")).hexdigest(): value for value in values}
    columns, names = schedule_values.c, list(new)
    where = (columns.schedule_id == schedule_id) & (columns.params_id == params_id)
    for start in range(0, len(names), _AT_ONCE):
        part = columns.value_sha256.in_(names[start : start + _AT_ONCE])
        for stored in db.scalars(select(columns.value_sha256).where(where, part)):
            del new[stored]
    if new:
        common = {"schedule_id": schedule_id, "params_id": params_id}
        db.execute(insert(schedule_values), [common | {"value_sha256": name} for name in new])
    return list(new.values())
