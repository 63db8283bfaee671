"""Jobs as people see them: asked for, looked at, cancelled."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, true
from sqlalchemy.orm import Session

from decoder_service.aggregates.rows import load_aggregates
from decoder_service.jobs import rows
from decoder_service.jobs.checks import Known, check_job, check_spec, counts_of_source
from decoder_service.jobs.known_counts import counts_of_row
from decoder_service.jobs.list_versions import ResolvedSpec, resolve_lists
from decoder_service.jobs.rows import JobState
from decoder_service.jobs.specs import CountSource, JobSpec, digest
from decoder_service.metrics.rules import Metrics
from decoder_service.people.access import AuditedOperations
from decoder_service.people.permissions import (
    Act,
    Person,
    own_results,
    require,
    visible_aggregates,
    visible_jobs,
)
from decoder_service.people.quotas import check_room, max_jobs
from decoder_service.shell.database import save, visible_row
from decoder_service.shell.errors import NotFoundError, QuotaError, RequestError, UnavailableError
from decoder_service.shell.models import AggregateRow, JobRow, ResultRow
from decoder_service.shell.versions import decoder_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs(AuditedOperations):
    """What people may do with jobs. Each call asks for the role, and sees what it may."""

    metrics: Metrics

    def submit(self, person: Person, spec: JobSpec, priority: int = 0) -> JobRow:
        """Queue a job. While an equal one of the same person is live, that one is returned.

        Args:
            person: its owner.
            spec: what is wanted; lists and aggregates must be visible to the person.
            priority: -10 to 10, among the owner's own jobs.

        Returns:
            The job, queued.

        Raises:
            RoleError, RequestError, NotFoundError, QuotaError.
        """
        require(person, Act.ANALYSE)
        check_spec(spec)
        try:
            return self._submit(person, spec, priority, fresh=False)
        except RequestError:
            if self.settings.collector is None or not any(one.collector for one in spec.sources):
                raise
        return self._submit(person, spec, priority, fresh=True)  # a day may be closed just now

    def _submit(self, person: Person, spec: JobSpec, priority: int, *, fresh: bool) -> JobRow:
        """As `submit`; the collector is asked first, which no transaction waits for."""
        served: list[Known | None] = [None] * len(spec.sources)
        if self.settings.collector is not None:
            served = [
                counts_of_source(self.metrics, spec, source, fresh=fresh) for source in spec.sources
            ]
        with self.database.writing() as db:
            return self.submit_in(db, person, spec, priority, served)

    def submit_in(
        self,
        db: Session,
        person: Person,
        spec: JobSpec,
        priority: int = 0,
        served: Sequence[Known | None] | None = None,
    ) -> JobRow:
        """As `submit`, in a transaction that does more, of what `check_spec` has passed.

        served: what is known of the collector's window of each source, None where that is nothing.
        """
        require(person, Act.ANALYSE)
        check_room(db, self.settings, person.id, person.role)
        resolved = self.resolve(db, person, spec)
        uploaded = [_uploaded(db, source) for source in spec.sources]
        counts = zip(uploaded, served or [None] * len(uploaded), strict=True)
        check_job(spec, [known or window for known, window in counts])
        spec_digest = digest(resolved.spec.to_json(), *resolved.digests, decoder_version())
        row = self._new(person, resolved.spec, spec_digest, priority=priority)
        return self._queue(db, person, row, "submit-job")

    def check_again(self, person: Person, result_id: str) -> JobRow:
        """Queue a job that decodes a result again and compares the bytes of its files.

        Raises RoleError, NotFoundError, QuotaError; RequestError for a result of another version.
        """
        require(person, Act.ANALYSE)
        with self.database.writing() as db:
            found = visible_row(db, ResultRow, own_results(person), result_id)
            if found.version != decoder_version():
                raise RequestError(
                    f"the result was made by {found.version}, this is {decoder_version()}; "
                    "start the job again: its result supersedes this one"
                )
            spec = JobSpec.model_validate(json.loads(found.manifest)["spec"])
            row = self._new(person, spec, found.key, checks=result_id)
            return self._queue(db, person, row, "check-result")

    def all(
        self, person: Person, *, state: JobState | None = None, limit: int = 100, offset: int = 0
    ) -> list[JobRow]:
        """One's own jobs, newest first; all of an admin. Raises RoleError, RequestError."""
        require(person, Act.ANALYSE)
        which: ColumnElement[bool] = true() if state is None else JobRow.state == state
        with self.database.reading() as db:
            return rows.load_jobs(db, visible_jobs(person) & which, limit, offset)

    def get(self, person: Person, job_id: str) -> JobRow:
        """A job. Raises RoleError, NotFoundError."""
        require(person, Act.ANALYSE)
        with self.database.reading() as db:
            return visible_row(db, JobRow, visible_jobs(person), job_id)

    def cancel(self, person: Person, job_id: str) -> JobRow:
        """Ask for the end of a job; one that is over stays as it is. Raises as `get`."""
        require(person, Act.ANALYSE)
        with self.database.writing() as db:
            visible_row(db, JobRow, visible_jobs(person), job_id)
            if rows.cancel_job(db, job_id, self.now()) is not None:
                self.access.note(db, person, "cancel-job", job=job_id)
            return visible_row(db, JobRow, visible_jobs(person), job_id)

    def resolve(self, db: Session, person: Person, spec: JobSpec) -> ResolvedSpec:
        """The specification with the numbers of its lists' versions, and their digests.

        Raises NotFoundError, UnavailableError for what is not there for this person; RequestError
        for a list of another kind.
        """
        for source in spec.sources:
            self._check_source(db, person, source)
        return resolve_lists(db, person, spec)

    def _check_source(self, db: Session, person: Person, source: CountSource) -> None:
        if source.collector is not None and self.settings.collector is None:
            raise UnavailableError("no collector is set up here; an operator sets `collector`")
        if source.files:
            folder = self.settings.aggregate_folder
            for name in source.files:
                if folder is None or not (folder / name).is_file():
                    raise NotFoundError(
                        f"there is no file {name} in aggregate_folder, which an operator fills"
                    )
        for sha in source.aggregates:
            which = visible_aggregates(person) & (AggregateRow.sha256 == sha)
            if not load_aggregates(db, which, 1):
                raise NotFoundError(
                    f"there is no aggregate {sha} that you may see; upload its file"
                )

    def _new(
        self,
        person: Person,
        spec: JobSpec,
        spec_digest: str,
        *,
        priority: int = 0,
        checks: str | None = None,
    ) -> JobRow:
        return JobRow(
            id=self.new_id(),
            operation=spec.operation,
            metric=spec.source.collector.metric if spec.source.collector else "",
            spec=spec.to_json(),
            spec_digest=spec_digest,
            state=JobState.QUEUED,
            max_attempts=self.settings.job_attempts,
            owner=person.id,
            priority=priority,
            created=self.now(),
            checks=checks,
            check_key=checks or "",
        )

    def _queue(self, db: Session, person: Person, row: JobRow, act: str) -> JobRow:
        twin = rows.live_twin(db, row)
        if twin is not None:
            return twin
        most = max_jobs(self.settings, person.role)
        if rows.count_live(db, person.id) >= most:
            raise QuotaError(f"you have {most} jobs that wait or run, as many as a role may have")
        save(db, row)
        self.access.note(db, person, act, job=row.id, operation=row.operation)
        return visible_row(db, JobRow, visible_jobs(person), row.id)


def _uploaded(db: Session, source: CountSource) -> Known | None:
    """What is known of the aggregates that a source names; None where it names none."""
    if not source.aggregates:
        return None
    which = AggregateRow.sha256.in_(source.aggregates)
    rows = load_aggregates(db, which, len(source.aggregates))
    return [counts_of_row(row) for row in rows]
