"""The periodic check of schedules ("tick"), which queues sealed windows and ends finished ones.

Any number of processes may tick at once. A window is inserted with its job in one transaction, and
its key is unique; a window is ended by one guarded UPDATE, with the events of its alarms."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from typing import Any

from sqlalchemy import update
from sqlalchemy.orm import Session

from decoder.errors import RemoteError
from decoder_service.alarms.events import WindowEvents
from decoder_service.jobs.rules import ResolvedSpec
from decoder_service.jobs.specs import CountSource, JobSpec, WindowSpec
from decoder_service.lists.rules import described, save_aggregate
from decoder_service.metrics.rules import NO_COLLECTOR, Metrics, RemoteCollector, unknown_metric
from decoder_service.people.permissions import Person
from decoder_service.results.rules import give_up
from decoder_service.schedules.rules import Schedules, load_schedules, spec_digest_of
from decoder_service.schedules.windows import (
    Days,
    ScheduleState,
    ScheduleStatus,
    change_window,
    delete_window,
    load_windows,
    next_window,
    sealed_windows,
    series_days,
    spec_of_schedule,
)
from decoder_service.shell.database import Operations, save
from decoder_service.shell.errors import ServiceError, is_unreachable
from decoder_service.shell.models import LIVE, JobRow, JobState, ScheduleRow, WindowRow, WindowState
from rappor_core.aggregate import Aggregate
from rappor_server.errors import ConflictError, RequestError

MAX_WINDOWS = 20  # Windows of one schedule queued per tick
TRIES = 3  # Attempts at a window whose job fails
PAUSE_SECONDS = 600.0  # Pause before another attempt, times the number of attempts
_PAUSED = "paused: no window is queued until someone resumes the schedule"
NO_OWNER = (
    "its owner has no valid key and has not signed in recently: the owner signs in, or an admin "
    "creates a key for the owner"
)


# A window, the source of its counts (None for an empty window), and the windows that it replaces.
Sealed = tuple[WindowRow, Aggregate | CountSource | None, Sequence[WindowRow]]


@dataclass(slots=True)
class TickResult:
    """The result of one check of all schedules."""

    queued: int = 0
    ended: int = 0
    # Why schedules are blocked, by id, without values
    problems: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRunner(Operations):
    """The runner that queues and ends the windows of all schedules ("tick")."""

    schedules: Schedules
    window_events: WindowEvents
    metrics: Metrics
    collector: RemoteCollector | None

    def tick(self) -> TickResult:
        """Check every enabled schedule. Raises StorageError."""
        ticked, listed = TickResult(), list[dict[str, Any]]()
        unreached = None if self.collector else RemoteError(NO_COLLECTOR)
        try:
            listed = self.collector.metrics() if self.collector else []
        except RemoteError as error:
            unreached = error
        self.schedules.add_defaults(listed)
        with self.database.reading() as db:
            schedules = load_schedules(db, ScheduleRow.enabled.is_(True))
        for schedule in schedules:
            problem = ""
            try:
                if unreached is not None:
                    raise unreached
                self._look_after(schedule, listed, ticked)
            except (RemoteError, ServiceError) as error:
                if is_unreachable(error):
                    raise
                ticked.problems[schedule.id] = problem = str(error)
            if problem != schedule.problem:
                same = (ScheduleRow.id == schedule.id, ScheduleRow.spec == schedule.spec)
                with self.database.writing() as db:
                    db.execute(update(ScheduleRow).where(*same).values(problem=problem))
            ticked.ended += self._end_windows(schedule)
        return ticked

    def statuses(self, rows: Sequence[ScheduleRow]) -> list[ScheduleStatus]:
        """Return the states of schedules, from the collector's last list and the latest tick."""
        listed, problem = self.metrics.latest()
        if problem and self.settings.collector is not None and not self.settings.collector_key:
            problem += "; an operator sets RAPPOR_DECODER_COLLECTOR_KEY to a key of scope aggregate"
        with self.database.reading() as db:
            return [self._status(db, row, listed, problem) for row in rows]

    def _status(
        self, db: Session, row: ScheduleRow, listed: Sequence[dict[str, Any]], problem: str
    ) -> ScheduleStatus:
        if not row.enabled:
            return ScheduleStatus(ScheduleState.PAUSED, _PAUSED)
        try:
            if problem:
                raise ServiceError(problem)
            versions = self._versions(row, listed)
            _, resolved = self._resolved(db, row)
            if row.problem:  # Such as a quota, or counts that the collector denies
                raise ServiceError(f"at the latest check: {row.problem}")
        except ServiceError as error:
            return ScheduleStatus(ScheduleState.BLOCKED, str(error))
        windows = load_windows(db, row.id)
        return next_window(row, versions, windows, spec_digest_of(resolved))

    def _owner(self, db: Session, schedule: ScheduleRow) -> Person:
        person = self.schedules.access.person_of_id(db, schedule.owner)
        if person is None:
            raise ServiceError(NO_OWNER)
        return person

    def _versions(
        self, schedule: ScheduleRow, listed: Sequence[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        versions = [row for row in listed if row["name"] == schedule.metric]
        if not versions:
            names = sorted({str(row["name"]) for row in listed})
            raise RequestError(unknown_metric(schedule.metric, names))
        return versions

    def _resolved(self, db: Session, schedule: ScheduleRow) -> tuple[Person, ResolvedSpec]:
        person = self._owner(db, schedule)
        try:
            return person, self.schedules.jobs.resolve(db, person, spec_of_schedule(schedule))
        except ServiceError as error:
            raise ServiceError(f"{error}; change the schedule") from None

    def _look_after(
        self, schedule: ScheduleRow, listed: Sequence[dict[str, Any]], ticked: TickResult
    ) -> None:
        versions = self._versions(schedule, listed)
        with self.database.reading() as db:
            person, resolved = self._resolved(db, schedule)
        for sealed in islice(self._sealed(schedule, resolved, versions), MAX_WINDOWS):
            # Windows before an error are still queued
            ticked.queued += self._insert(schedule, person, resolved.spec, sealed)

    def _sealed(
        self, schedule: ScheduleRow, resolved: ResolvedSpec, versions: Sequence[dict[str, Any]]
    ) -> Iterator[Sealed]:
        """Yield the windows of a schedule that are sealed and not stored yet.

        A series has one window: a new one replaces it once it has ended and there are new days.
        Its result is shown until the new one exists."""
        assert self.collector is not None  # noqa: S101 (its list was read)
        with self.database.reading() as db:
            rows = load_windows(db, schedule.id)
        for version in versions:
            served, params_id = version.get("served"), str(version["params_id"])
            if not served:
                continue
            key = (schedule.id, spec_digest_of(resolved), params_id)
            mine = [row for row in rows if (row.digest, row.params_id) == key[1:]]
            if resolved.spec.operation != "series":
                done = {row.first_day: row for row in mine}
                windows = sealed_windows(self.collector, schedule, served, params_id, done)
                for days, counts in windows:
                    window = _window(key, days, counts.num_reports if counts else None)
                    yield window, counts, ()
            elif version["state"] == "current":
                first, last = series_days(schedule, served)
                waits = any(row.state == WindowState.WAITING for row in mine)
                if first < last and not waits and str(last) not in [row.last_day for row in mine]:
                    spec = WindowSpec(metric=schedule.metric, first=first, last=last)
                    result = next((row.result_id for row in mine if row.result_id), None)
                    window = replace(_window(key, (first, last), 0), result_id=result)
                    yield window, CountSource(collector=spec), mine

    def _insert(self, schedule: ScheduleRow, person: Person, spec: JobSpec, sealed: Sealed) -> bool:
        """Insert a window, with a job unless it is empty; return whether a job was queued.

        Does nothing if another process inserted it first, or if a person paused, changed or deleted
        the schedule."""
        window, source, before = sealed
        try:
            with self.database.writing() as db:
                if load_schedules(db, ScheduleRow.id == schedule.id) != [schedule]:
                    return False
                if not all(delete_window(db, old) for old in before):
                    return False
                if isinstance(source, Aggregate):
                    row = described(source.to_json(), self.now())
                    save_aggregate(db, row, person.id)
                    source = CountSource(aggregates=[row.sha256])
                if window.state != WindowState.EMPTY:
                    spec = spec.model_copy(update={"source": source})
                    job = self.schedules.jobs.submit_in(db, person, spec)
                    window = replace(window, job_id=job.id)
                save(db, window)
        except ConflictError:
            return False
        return window.state != WindowState.EMPTY

    def _end_windows(self, schedule: ScheduleRow) -> int:
        """End the windows whose jobs are over, oldest first; return their number.

        A window whose job waits or runs delays the later windows with its specification, which are
        compared with it. A window whose job failed and waits for a new attempt does not delay
        others.
        """
        ended = 0
        with self.database.reading() as db:
            loaded = load_windows(db, schedule.id)
        for _, windows in groupby(loaded, lambda row: (row.digest, row.params_id)):
            before: list[WindowRow] = []
            waits = False
            for window in windows:
                if window.state == WindowState.WAITING:
                    with self.database.reading() as db:
                        job = db.get(JobRow, window.job_id or "")
                    if job is not None and job.state in LIVE:
                        waits = True
                    elif not waits and not (job and self._again(schedule, window, job)):
                        window = self._end(schedule, before, window, job)
                        ended += 1
                before.append(window)
        return ended

    def _end(
        self, schedule: ScheduleRow, before: list[WindowRow], window: WindowRow, job: JobRow | None
    ) -> WindowRow:
        """End a window whose job is over; return the changed window."""
        result = job.result_id if job and job.state == JobState.DONE else None
        is_series = spec_of_schedule(schedule).operation == "series"
        if result is not None and not is_series:
            return self.window_events.complete(schedule, before, window, result)
        state, result_id = WindowState.DONE, result or window.result_id
        if result is None:
            cancelled = job is not None and job.state == JobState.CANCELLED
            state = WindowState.CANCELLED if cancelled else WindowState.FAILED
        with self.database.writing() as db:
            if change_window(db, window, state=state, result_id=result_id):
                if result is None:
                    self.window_events.store_failed(db, schedule, window, state)
                elif window.result_id not in (None, result):  # The result of the previous series
                    give_up(db, str(window.result_id), schedule.owner)
        return replace(window, state=state, result_id=result_id)

    def _again(self, schedule: ScheduleRow, window: WindowRow, job: JobRow) -> bool:
        """Queue a failed job again after a pause; return False if its window must end."""
        tries = window.tries + 1
        if job.state in (JobState.DONE, JobState.CANCELLED) or tries >= TRIES:
            return False
        if self.now() < (job.ended or 0.0) + PAUSE_SECONDS * tries:
            return True
        try:
            with self.database.writing() as db:
                spec = JobSpec.model_validate_json(job.spec)
                again = self.schedules.jobs.submit_in(db, self._owner(db, schedule), spec)
                if not change_window(db, window, tries=tries, job_id=again.id):
                    raise ConflictError("another process was first")
        except ServiceError as error:  # A later tick tries again
            if is_unreachable(error):
                raise
        return True


def _window(key: tuple[str, str, str], days: Days, reports: int | None) -> WindowRow:
    """Return a new window; `key` is schedule id, specification digest and params id."""
    schedule_id, spec_digest, params_id = key
    first, last = (day.isoformat() for day in days)
    return WindowRow(
        schedule_id=schedule_id,
        digest=spec_digest,
        params_id=params_id,
        first_day=first,
        last_day=last,
        num_reports=reports or 0,
        state=WindowState.EMPTY if reports is None else WindowState.WAITING,
    )
