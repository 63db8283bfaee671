"""The database tables as mapped classes.

Times are seconds since 1970 (UTC); days are text, YYYY-MM-DD. Ids of rows are 16 random hexadecimal
digits. Contents are stored by the SHA-256 of their bytes."""

from enum import StrEnum
from typing import Annotated, Any, ClassVar

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedAsDataclass, mapped_column, relationship

from rappor_server.errors import NotFoundError


class JobState(StrEnum):
    """The states of a job; the first three are live."""

    QUEUED = "queued"
    RUNNING = "running"
    CANCELLING = "cancelling"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"  # Workers died in all attempts


LIVE = (JobState.QUEUED, JobState.RUNNING, JobState.CANCELLING)
HELD = (JobState.RUNNING, JobState.CANCELLING)
OVER = (JobState.DONE, JobState.FAILED, JobState.CANCELLED, JobState.ABANDONED)


class ListKind(StrEnum):
    """The kinds of lists."""

    CANDIDATES = "candidates"  # One value per line
    WEIGHTS = "weights"  # CSV of `value,weight`
    FLOWS = "flows"  # CSV of `origin,destination,count`, a known matrix
    AREAS = "areas"  # GeoJSON of named polygons


class ReleaseState(StrEnum):
    """The states of a release; all but the first are final."""

    PROPOSED = "proposed"
    APPROVED = "approved"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"


class WindowState(StrEnum):
    """The states of a window."""

    EMPTY = "empty"  # No reports
    WAITING = "waiting"  # Its job has not ended
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class EventState(StrEnum):
    """The states of an alarm's message."""

    WAITING = "waiting"
    SENT = "sent"
    FAILED = "failed"  # After all tries


SHARED, PRIVATE = "shared", "private"  # Visibilities of a list
Id = Annotated[str, mapped_column(String(16))]
OwnId = Annotated[str, mapped_column(String(16), primary_key=True)]
Person = Annotated[str, mapped_column(String(16), ForeignKey("people.id"))]
ScheduleId = Annotated[str, mapped_column(String(16), ForeignKey("schedules.id"))]
ResultId = Annotated[str, mapped_column(String(16), ForeignKey("results.id"))]
Sha256 = Annotated[str, mapped_column(String(64))]
Day = Annotated[str, mapped_column(String(10))]
Word = Annotated[str, mapped_column(String(16))]
Name = Annotated[str, mapped_column(String(200))]
Metric = Annotated[str, mapped_column(String(256))]
Large = Annotated[int, mapped_column(BigInteger)]


class Base(MappedAsDataclass, DeclarativeBase, kw_only=True, eq=False):
    """The base of the mapped classes, most of which are changed by guarded UPDATE statements."""

    type_annotation_map: ClassVar[dict[Any, Any]] = {float: Double, str: Text}


def _of_person(column: str) -> Any:
    return relationship(
        foreign_keys=column, lazy="joined", viewonly=True, init=False, repr=False, compare=False
    )


def _files(name: str, owner: str, owners: str) -> Table:
    """Return a table of files; `owner` is its id column, which refers to the table `owners`."""
    return Table(
        name,
        Base.metadata,
        Column(owner, String(16), ForeignKey(f"{owners}.id"), primary_key=True),
        Column("name", String(64), primary_key=True),
        Column("sha256", String(64), nullable=False),
        Column("size", Integer, nullable=False),  # bytes, before compression
        Column("content", LargeBinary, nullable=False),  # zlib
    )


class Identified(Base):
    """The base of the mapped classes that `visible_row` returns."""

    __abstract__ = True
    id: Mapped[OwnId]


class PersonRow(Identified):
    """A person, who has keys or signs in through a provider."""

    __tablename__ = "people"
    name: Mapped[str] = mapped_column(String(200), unique=True)
    created: Mapped[float]


class KeyRow(Base):
    """A key, stored with the SHA-256 of its secret."""

    __tablename__ = "keys"

    key_id: Mapped[OwnId]
    person_id: Mapped[Person]
    role: Mapped[Word]
    label: Mapped[Name]
    secret_hash: Mapped[bytes] = mapped_column(LargeBinary(32), repr=False)
    created: Mapped[float]
    revoked: Mapped[float | None] = mapped_column(default=None)
    person: Mapped[PersonRow] = _of_person("KeyRow.person_id")


class SessionRow(Base):
    """A browser session, which ends with the key that it was created with, if any."""

    __tablename__ = "sessions"

    token_hash: Mapped[bytes] = mapped_column(LargeBinary(32), primary_key=True, repr=False)
    person_id: Mapped[Person]
    role: Mapped[Word]
    key_id: Mapped[str | None] = mapped_column(String(16), ForeignKey("keys.key_id"))
    created: Mapped[float]
    expires: Mapped[float]
    person: Mapped[PersonRow] = _of_person("SessionRow.person_id")


class IdentityRow(Base):
    """A person identified by an OpenID Connect provider, with the role at the last sign-in."""

    __tablename__ = "identities"

    issuer: Mapped[str] = mapped_column(String(500), primary_key=True)
    subject: Mapped[str] = mapped_column(String(255), primary_key=True)
    person_id: Mapped[str] = mapped_column(String(16), ForeignKey("people.id"), unique=True)
    role: Mapped[Word]
    created: Mapped[float]
    seen: Mapped[float]
    revoked: Mapped[float | None] = mapped_column(default=None)  # An admin blocked the person
    person: Mapped[PersonRow] = _of_person("IdentityRow.person_id")


class AuditRow(Base):
    """An entry of the audit log."""

    __tablename__ = "audit"

    id: Mapped[int] = mapped_column(primary_key=True, init=False)
    at: Mapped[float]
    actor: Mapped[Name]  # A person's name, or command-line
    key_id: Mapped[Id]  # "" if there is no key
    act: Mapped[str] = mapped_column(String(64))
    detail: Mapped[str]  # JSON


class ListVersionRow(Base):
    """A version of a list."""

    __tablename__ = "list_versions"

    list_id: Mapped[str] = mapped_column(String(16), ForeignKey("lists.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)  # from 1
    sha256: Mapped[str] = mapped_column(String(64), ForeignKey("list_contents.sha256"))
    entries: Mapped[int]  # Distinct values
    size: Mapped[int]  # Bytes
    created: Mapped[float]


class ListRow(Identified):
    """A list of candidates, weights, flows or areas."""

    __tablename__ = "lists"
    __table_args__ = (UniqueConstraint("owner", "name"),)

    name: Mapped[Name]
    owner: Mapped[Person]
    visibility: Mapped[Word]
    source: Mapped[str] = mapped_column(String(1000))  # The origin of the list, as text
    created: Mapped[float]
    kind: Mapped[str] = mapped_column(String(16), server_default="candidates", default="candidates")
    person: Mapped[PersonRow] = _of_person("ListRow.owner")
    versions: Mapped[list[ListVersionRow]] = relationship(
        order_by=ListVersionRow.number.desc(), lazy="selectin", viewonly=True, init=False
    )

    @property
    def latest(self) -> ListVersionRow:
        """Return the latest version; a list always has one."""
        return self.versions[0]

    def version(self, number: int | None) -> ListVersionRow:
        """Return a version, or the latest for None; raise NotFoundError if it does not exist."""
        for version in self.versions:
            if number in (None, version.number):
                return version
        raise NotFoundError(f"list {self.id} has no version {number}; its page lists all")


list_contents = Table(
    "list_contents",
    Base.metadata,
    Column("sha256", String(64), primary_key=True),
    Column("content", LargeBinary, nullable=False),
)


class AggregateRow(Base):
    """An aggregate, identified by the SHA-256 of its bytes; days and kind are None if unknown."""

    __tablename__ = "aggregates"
    __table_args__ = (Index("aggregates_created", "created"),)

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    metric: Mapped[Metric]
    params_id: Mapped[Sha256]
    first_day: Mapped[Day | None]
    last_day: Mapped[Day | None]
    num_reports: Mapped[Large]
    content: Mapped[bytes] = mapped_column(deferred=True, repr=False)
    created: Mapped[float]
    kind: Mapped[str | None] = mapped_column(String(32), default=None)


aggregate_readers = Table(
    "aggregate_readers",
    Base.metadata,
    Column("sha256", String(64), ForeignKey("aggregates.sha256"), primary_key=True),
    Column("person_id", String(16), ForeignKey("people.id"), primary_key=True),
    Index("aggregate_readers_person", "person_id", "sha256"),
)


class ResultRow(Identified):
    """A result without its files, unique by `key`; only `released` changes."""

    __tablename__ = "results"
    __table_args__ = (
        Index("results_created", "created", "id"),
        Index("results_released", "released", "created"),
        Index("results_metric", "metric", "params_id"),
    )

    # Digest of aggregates, candidates, options and version
    key: Mapped[str] = mapped_column(String(64), unique=True)
    input_digest: Mapped[str] = mapped_column(String(64), index=True)  # `key` without the version
    # The id of an earlier version's result
    supersedes: Mapped[str | None] = mapped_column(String(16), index=True)
    operation: Mapped[Word]
    kind: Mapped[str] = mapped_column(String(32))
    metric: Mapped[Metric]
    params_id: Mapped[Sha256]
    first_day: Mapped[Day | None]
    last_day: Mapped[Day | None]
    version: Mapped[Name]
    manifest: Mapped[str]  # JSON
    summary: Mapped[str]  # JSON
    released: Mapped[bool]
    created: Mapped[float]
    released_by: Mapped[Id | None] = mapped_column(default=None)
    # Compressed bytes of its files
    stored: Mapped[int] = mapped_column(BigInteger, server_default="0", default=0)


result_files = _files("result_files", "result_id", "results")

result_readers = Table(
    "result_readers",
    Base.metadata,
    Column("result_id", String(16), ForeignKey("results.id"), primary_key=True),
    Column("person_id", String(16), ForeignKey("people.id"), primary_key=True),
    Index("result_readers_person", "person_id", "result_id"),
)

_LIVE = text("state IN ('queued', 'running', 'cancelling')")


class JobRow(Identified):
    """A job, whose state is changed by single UPDATEs that name the holder's token and attempt."""

    __tablename__ = "jobs"
    __table_args__ = (
        Index("jobs_live", "owner", "spec_digest", unique=True,
              sqlite_where=_LIVE, postgresql_where=_LIVE),
        Index("jobs_state", "state", "owner", "created"),
        Index("jobs_owner", "owner", "started"),
        Index("jobs_created", "created", "id"),
    )  # fmt: skip

    operation: Mapped[Word]
    metric: Mapped[Metric]
    spec: Mapped[str]
    spec_digest: Mapped[Sha256]
    state: Mapped[Word]
    max_attempts: Mapped[int]
    owner: Mapped[Person]
    created: Mapped[float]
    # `stage`, `done` and `total` are its progress
    stage: Mapped[str] = mapped_column(String(100), default="")
    done: Mapped[int] = mapped_column(default=0)
    total: Mapped[int] = mapped_column(default=0)
    attempt: Mapped[int] = mapped_column(default=0)  # Number of claims
    # `worker`, `token` and `lease` are the holder's
    worker: Mapped[str | None] = mapped_column(String(32), default=None)
    token: Mapped[str | None] = mapped_column(String(32), default=None)
    lease: Mapped[float | None] = mapped_column(default=None)
    reason: Mapped[str] = mapped_column(default="")  # Why it ended
    started: Mapped[float | None] = mapped_column(default=None)  # Start of the last attempt
    ended: Mapped[float | None] = mapped_column(default=None)
    result_id: Mapped[ResultId | None] = mapped_column(default=None)
    person: Mapped[PersonRow] = _of_person("JobRow.owner")


class WorkerRow(Base):
    """A worker process; `seen` is the time of its last heartbeat."""

    __tablename__ = "workers"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    host: Mapped[Name]
    pid: Mapped[int]
    slots: Mapped[int]
    started: Mapped[float]
    seen: Mapped[float]


class ScheduleRow(Identified, eq=True, unsafe_hash=True):
    """A schedule, which decodes every sealed window of a metric once."""

    __tablename__ = "schedules"
    __table_args__ = (UniqueConstraint("owner", "name"),)

    name: Mapped[Name]
    owner: Mapped[Person]
    metric: Mapped[Metric]
    every: Mapped[Word]
    spec: Mapped[str]  # JSON of the job without its window
    enabled: Mapped[bool]
    created: Mapped[float]
    first_day: Mapped[Day | None] = mapped_column(default=None)  # None: from the first served day
    problem: Mapped[str] = mapped_column(server_default="", default="", compare=False)


class WindowRow(Base):
    """A window of a schedule with one specification; merged days make the window longer."""

    __tablename__ = "schedule_windows"

    schedule_id: Mapped[ScheduleId] = mapped_column(primary_key=True)
    # The digest of options and lists
    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    params_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    first_day: Mapped[str] = mapped_column(String(10), primary_key=True)
    last_day: Mapped[Day]
    num_reports: Mapped[Large]
    state: Mapped[Word]
    tries: Mapped[int] = mapped_column(default=0)
    job_id: Mapped[Id | None] = mapped_column(default=None)
    result_id: Mapped[Id | None] = mapped_column(default=None)


schedule_values = Table(  # Values already seen in a schedule's windows: one alarm for each
    "schedule_values",
    Base.metadata,
    Column("schedule_id", String(16), ForeignKey("schedules.id"), primary_key=True),
    Column("params_id", String(64), primary_key=True),
    Column("value_sha256", String(64), primary_key=True),
)


class AlarmRow(Identified):
    """An alarm of a schedule."""

    __tablename__ = "alarms"

    schedule_id: Mapped[ScheduleId] = mapped_column(index=True)
    name: Mapped[Name]
    target: Mapped[str] = mapped_column(String(1000))  # A name in the setting `alarm_urls`
    rules: Mapped[str]  # JSON
    show_values: Mapped[bool]
    created: Mapped[float]


class EventRow(Identified):
    """The message of an alarm about one cause, inserted with the change that causes it."""

    __tablename__ = "alarm_events"
    __table_args__ = (
        UniqueConstraint("alarm_id", "cause"),
        Index("alarm_events_due", "state", "due"),
    )

    alarm_id: Mapped[str] = mapped_column(String(16), ForeignKey("alarms.id"))
    cause: Mapped[Name]
    body: Mapped[str]  # JSON
    state: Mapped[Word]
    due: Mapped[float]  # Time of the next try
    created: Mapped[float]
    tries: Mapped[int] = mapped_column(default=0)  # Number of tries begun
    reason: Mapped[str] = mapped_column(default="")
    sent: Mapped[float | None] = mapped_column(default=None)
    alarm: Mapped[AlarmRow] = relationship(
        lazy="joined", innerjoin=True, viewonly=True, init=False, repr=False
    )


_APPROVED = text("state = 'approved'")


class ReleaseRow(Identified):
    """A release without its files, approved or refused once by one guarded UPDATE."""

    __tablename__ = "releases"
    __table_args__ = (
        Index("releases_number", "name", "number", unique=True,
              sqlite_where=_APPROVED, postgresql_where=_APPROVED),
        Index("releases_state", "state", "created"),
    )  # fmt: skip

    name: Mapped[Name]
    number: Mapped[int]  # Its position among the approved releases of its name
    state: Mapped[Word]
    proposer: Mapped[str] = mapped_column(String(16), ForeignKey("people.id"), index=True)
    owner: Mapped[str] = mapped_column(String(500))
    audience: Mapped[str] = mapped_column(String(500))
    issued: Mapped[Day]
    digest: Mapped[Sha256]  # SHA-256 of its manifest
    policy: Mapped[str]  # The text of release.toml
    sources: Mapped[str]  # JSON of results and strata
    note: Mapped[str]
    # The release that `difference` compares with
    base: Mapped[str | None] = mapped_column(String(16), ForeignKey("releases.id"))
    changes: Mapped[int]  # Number of rows in `difference`
    difference: Mapped[bytes] = mapped_column(deferred=True, repr=False)  # zlib of JSON
    created: Mapped[float]
    stored: Mapped[int] = mapped_column(default=0)  # Bytes of its files
    reviewer: Mapped[Person | None] = mapped_column(default=None)
    reason: Mapped[str] = mapped_column(default="")
    decided: Mapped[float | None] = mapped_column(default=None)
    proposed_by: Mapped[PersonRow] = _of_person("ReleaseRow.proposer")
    decided_by: Mapped[PersonRow | None] = _of_person("ReleaseRow.reviewer")


release_files = _files("release_files", "release_id", "releases")

# A release is built on all approved releases of its metrics, which `number` counts per metric. Of
# two releases that were built on the same releases, only one can be approved.
_PUBLIC = text("approved")
release_metrics = Table(
    "release_metrics",
    Base.metadata,
    Column("release_id", String(16), ForeignKey("releases.id"), primary_key=True),
    Column("metric", String(256), primary_key=True),
    Column("number", Integer, nullable=False),
    Column("approved", Boolean, nullable=False),
    Index("release_metrics_number", "metric", "number", unique=True,
          sqlite_where=_PUBLIC, postgresql_where=_PUBLIC),
)  # fmt: skip
