"""A tick of the schedules: queue sealed windows, and end those whose jobs are over.

Any number of processes may tick at once. A window is inserted with its job in one transaction,
and its key is unique; a window is ended by one guarded UPDATE, with the events of its alarms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from sqlalchemy.orm import Session

from decoder.errors import RemoteError
from decoder_service.aggregates.rows import save_aggregate
from decoder_service.aggregates.rules import described
from decoder_service.alarms.events import WindowEvents
from decoder_service.jobs.checks import unknown_metric
from decoder_service.jobs.rows import LIVE, JobState
from decoder_service.jobs.rules import Jobs
from decoder_service.jobs.specs import CountSource, JobSpec, WindowSpec
from decoder_service.metrics.rules import NO_COLLECTOR, RemoteCollector
from decoder_service.people.permissions import Person
from decoder_service.results.rows import give_up
from decoder_service.schedules.rows import (
    WindowState,
    delete_window,
    end_window,
    load_schedules,
    load_windows,
    try_again,
)
from decoder_service.schedules.rules import Schedules, spec_digest_of, spec_of_schedule
from decoder_service.schedules.sealed_windows import sealed_windows, series_window
from decoder_service.schedules.series import groups_of
from decoder_service.schedules.status import NO_OWNER, ScheduleStatus, ScheduleStatuses
from decoder_service.shell.database import save
from decoder_service.shell.errors import ConflictError, RequestError, ServiceError, StorageError
from decoder_service.shell.models import JobRow, ScheduleRow, WindowRow
from decoder_service.shell.operations import Operations
from rappor_core.aggregate import Aggregate

MOST_WINDOWS = 20  # of one schedule that are queued by one tick
TRIES = 3  # of a window whose job failed
PAUSE_SECONDS = 600.0  # before another try, times the tries


@dataclass(slots=True)
class TickResult:
    """The effect of one check of all schedules. problems: why a schedule does not go on, without
    values."""

    queued: int = 0
    ended: int = 0
    problems: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRunner(Operations):
    """Checks the schedules of a database ("tick"): queues sealed windows and stores the state of
    each schedule."""

    schedules: Schedules
    jobs: Jobs
    window_events: WindowEvents
    collector: RemoteCollector | None
    statuses: ScheduleStatuses

    def tick(self) -> TickResult:
        """Look after every schedule that is switched on. Raises StorageError."""
        ticked = TickResult()
        listed, unreached = self._listed()
        self.schedules.add_defaults(listed)
        found: list[tuple[ScheduleRow, ScheduleStatus]] = []
        for schedule in self.schedules.every_enabled():
            try:
                if unreached is not None:
                    raise unreached
                self._queue(schedule, listed, ticked)
                found.append((schedule, self.statuses.by_list(schedule, listed)))
            except (RemoteError, ServiceError) as error:
                if isinstance(error, StorageError) and not isinstance(error, ConflictError):
                    raise
                ticked.problems[schedule.id] = str(error)
                found.append((schedule, self.statuses.failed(error)))
            ticked.ended += self._end_windows(schedule)
        self.statuses.store(found)
        self._look_at_refusals(ticked)
        return ticked

    def _listed(self) -> tuple[list[dict[str, object]], RemoteError | None]:
        """The metrics of the collector, or why there are none."""
        if self.collector is None:
            return [], RemoteError(NO_COLLECTOR)
        try:
            return self.collector.metrics(), None
        except RemoteError as error:
            return [], error

    def _owner(self, db: Session, schedule: ScheduleRow) -> Person:
        person = self.schedules.access.person_of_id(db, schedule.owner)
        if person is None:
            raise ServiceError(NO_OWNER)
        return person

    def _queue(
        self, schedule: ScheduleRow, listed: list[dict[str, object]], ticked: TickResult
    ) -> None:
        assert self.collector is not None  # noqa: S101 (its list was read)
        spec = spec_of_schedule(schedule)
        with self.database.reading() as db:
            person = self._owner(db, schedule)
            resolved = self.jobs.resolve(db, person, spec)
            known = load_windows(db, schedule.id)
        spec_digest, room = spec_digest_of(resolved), MOST_WINDOWS
        names = {str(row["name"]) for row in listed}
        if schedule.metric not in names:
            raise RequestError(unknown_metric(schedule.metric, sorted(names)))
        for row in listed:
            served = row.get("served")
            if row["name"] != schedule.metric or not isinstance(served, dict):
                continue
            done = {
                one.first_day: one
                for one in known
                if (one.digest, one.params_id) == (spec_digest, row["params_id"])
            }
            if spec.operation == "series":
                if row["state"] == "current":
                    window = series_window(schedule, served, spec_digest, row["params_id"])
                    ticked.queued += self._insert_series(
                        schedule, person, resolved.spec, window, list(done.values())
                    )
                continue
            for window, aggregate in sealed_windows(
                self.collector, schedule, row, spec_digest, done
            ):
                ticked.queued += self._insert(schedule, person, resolved.spec, window, aggregate)
                room -= 1
                if not room:
                    return

    def _insert(
        self,
        schedule: ScheduleRow,
        person: Person,
        spec: JobSpec,
        window: WindowRow,
        aggregate: Aggregate | None,
    ) -> int:
        """Insert a window with its job; 0 where another process was first, or a person.

        schedule: as it was when its windows were looked for; it may be paused, changed or gone.
        """
        try:
            with self.database.writing() as db:
                own = ScheduleRow.id == schedule.id
                if load_schedules(db, own) != [schedule]:
                    return 0
                job = None
                if aggregate is not None:
                    row = described(aggregate.to_json(), self.now())
                    save_aggregate(db, row, person.id)
                    source = {"source": CountSource(aggregates=[row.sha256])}
                    with_counts = spec.model_copy(update=source)
                    job = self.jobs.submit_in(db, person, with_counts).id
                save(db, replace(window, job_id=job))
        except ConflictError:
            return 0
        return 0 if aggregate is None else 1

    def _insert_series(
        self,
        schedule: ScheduleRow,
        person: Person,
        spec: JobSpec,
        window: WindowRow,
        before: Sequence[WindowRow],
    ) -> int:
        """Put the window of a series in place of the one before, which ended earlier, with a job;
        return 0 where nothing is new.

        The result of the one before is shown until there is another.
        """
        if window.first_day >= window.last_day:
            return 0
        if any(one.state == WindowState.WAITING or one.last_day == window.last_day
               for one in before):  # fmt: skip
            return 0
        first, last = (date.fromisoformat(day) for day in (window.first_day, window.last_day))
        source = CountSource(collector=WindowSpec(metric=schedule.metric, first=first, last=last))
        try:
            with self.database.writing() as db:
                if load_schedules(db, ScheduleRow.id == schedule.id) != [schedule]:
                    return 0
                if not all(delete_window(db, one) for one in before):
                    return 0
                job = self.jobs.submit_in(db, person, spec.model_copy(update={"source": source}))
                shown = next((one.result_id for one in before if one.result_id), None)
                save(db, replace(window, job_id=job.id, result_id=shown))
        except ConflictError:
            return 0
        return 1

    def _end_windows(self, schedule: ScheduleRow) -> int:
        """End the windows whose jobs are over, the oldest first; return how many."""
        with self.database.reading() as db:
            groups = groups_of(load_windows(db, schedule.id))
        return sum(self._end_group(schedule, windows) for windows in groups)

    def _end_group(self, schedule: ScheduleRow, windows: list[WindowRow]) -> int:
        """End windows of one specification, oldest first; return how many.

        One whose job still waits or runs holds up those after it, which are compared with it; one
        whose job failed and is tried again after a pause does not.
        """
        before: list[WindowRow] = []
        ended, waits = 0, False
        for window in windows:
            if window.state == WindowState.WAITING:
                job = self._job(window)
                if job is not None and job.state in LIVE:
                    waits = True
                elif not waits and not (job is not None and self._again(schedule, window, job)):
                    window = self._end_one(schedule, before, window, job)
                    ended += 1
            before.append(window)
        return ended

    def _job(self, window: WindowRow) -> JobRow | None:
        with self.database.reading() as db:
            return db.get(JobRow, window.job_id or "")

    def _end_one(
        self, schedule: ScheduleRow, before: list[WindowRow], window: WindowRow, job: JobRow | None
    ) -> WindowRow:
        """End a window whose job is over; return the window as it is then."""
        if job is not None and job.state == JobState.DONE and job.result_id is not None:
            if spec_of_schedule(schedule).operation == "series":
                return self._end_series(schedule, window, job.result_id)
            return self.window_events.complete(schedule, before, window, job.result_id)
        state = WindowState.FAILED
        if job is not None and job.state == JobState.CANCELLED:
            state = WindowState.CANCELLED
        with self.database.writing() as db:
            if end_window(db, window, state, window.result_id):
                self.window_events.store_failed(db, schedule, window, state)
        return replace(window, state=state)

    def _end_series(self, schedule: ScheduleRow, window: WindowRow, result_id: str) -> WindowRow:
        """End the window of a series, whose result replaces the one before."""
        with self.database.writing() as db:
            ended = end_window(db, window, WindowState.DONE, result_id)
            if ended and window.result_id not in (None, result_id):
                give_up(db, str(window.result_id), schedule.owner)
        return replace(window, state=WindowState.DONE, result_id=result_id)

    def _again(self, schedule: ScheduleRow, window: WindowRow, job: JobRow) -> bool:
        """Queue a job that failed again, after a pause; False for one that is over for good."""
        if job.state in (JobState.DONE, JobState.CANCELLED) or window.tries + 1 >= TRIES:
            return False
        due = (job.ended or 0.0) + PAUSE_SECONDS * (window.tries + 1)
        if self.now() < due:
            return True
        try:
            with self.database.writing() as db:
                person = self._owner(db, schedule)
                spec = JobSpec.model_validate_json(job.spec)
                again = self.jobs.submit_in(db, person, spec)
                if not try_again(db, window, again.id):
                    raise ConflictError("another process was first")
        except ConflictError:
            return True
        except StorageError:
            raise
        except ServiceError:
            return True  # a list that is gone, or a quota: it is tried again by a later tick
        return True

    def _look_at_refusals(self, ticked: TickResult) -> None:
        if self.collector is None or not self.window_events.wants_refusals():
            return
        try:
            accepted, refused = self.collector.counters()
        except RemoteError as error:
            ticked.problems["refusals"] = str(error)
            return
        self.window_events.store_refusals(accepted, refused)
