"""The tables. Times are seconds since 1970 (UTC); days are text, YYYY-MM-DD.

Ids of rows are 16 random hexadecimal digits. Contents are stored by the SHA-256 of their bytes.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from rappor_server.rows import key_columns

metadata = MetaData()

people = Table(
    "people",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("name", String(200), nullable=False, unique=True),
    Column("created", Double, nullable=False),
)

keys = Table(
    "keys",
    metadata,
    Column("key_id", String(16), primary_key=True),
    Column("person_id", String(16), ForeignKey("people.id"), nullable=False),
    Column("role", String(16), nullable=False),
    *key_columns(Double),
)

# Of browsers. A session that was made from a key ends with it.
sessions = Table(
    "sessions",
    metadata,
    Column("token_hash", LargeBinary(32), primary_key=True),
    Column("person_id", String(16), ForeignKey("people.id"), nullable=False),
    Column("role", String(16), nullable=False),
    Column("key_id", String(16), ForeignKey("keys.key_id")),
    Column("created", Double, nullable=False),
    Column("expires", Double, nullable=False),
)

# People as a provider of OpenID Connect knows them; the role is of their last sign-in.
identities = Table(
    "identities",
    metadata,
    Column("issuer", String(500), primary_key=True),
    Column("subject", String(255), primary_key=True),
    Column("person_id", String(16), ForeignKey("people.id"), nullable=False, unique=True),
    Column("role", String(16), nullable=False),
    Column("created", Double, nullable=False),
    Column("seen", Double, nullable=False),
    Column("revoked", Double),
)

audit = Table(
    "audit",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", Double, nullable=False),
    Column("actor", String(200), nullable=False),  # the name of a person, or command-line
    Column("key_id", String(16), nullable=False),  # "" where there was none
    Column("act", String(64), nullable=False),
    Column("detail", Text, nullable=False),
)

lists = Table(
    "lists",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("owner", String(16), ForeignKey("people.id"), nullable=False),
    Column("visibility", String(16), nullable=False),  # private, shared
    Column("source", String(1000), nullable=False),  # where it comes from, in words
    Column("created", Double, nullable=False),
    Column("kind", String(16), nullable=False, server_default="candidates"),  # `ListKind`
    UniqueConstraint("owner", "name"),
)

list_contents = Table(
    "list_contents",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

list_versions = Table(
    "list_versions",
    metadata,
    Column("list_id", String(16), ForeignKey("lists.id"), primary_key=True),
    Column("number", Integer, primary_key=True),  # from 1
    Column("sha256", String(64), ForeignKey("list_contents.sha256"), nullable=False),
    Column("entries", Integer, nullable=False),
    Column("size", Integer, nullable=False),  # bytes
    Column("created", Double, nullable=False),
)

aggregates = Table(
    "aggregates",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("metric", String(256), nullable=False),
    Column("params_id", String(64), nullable=False),
    Column("first_day", String(10)),
    Column("last_day", String(10)),
    Column("num_reports", BigInteger, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("created", Double, nullable=False),
    Column("kind", String(32)),
    Column("num_cohorts", Integer),
    Column("own_values", Boolean),
)
Index("aggregates_created", aggregates.c.created)

aggregate_readers = Table(
    "aggregate_readers",
    metadata,
    Column("sha256", String(64), ForeignKey("aggregates.sha256"), primary_key=True),
    Column("person_id", String(16), ForeignKey("people.id"), primary_key=True),
)
Index("aggregate_readers_person", aggregate_readers.c.person_id, aggregate_readers.c.sha256)

# One result a `key`, for good: digests of aggregates, candidates, options and version.
results = Table(
    "results",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("key", String(64), nullable=False, unique=True),
    Column("input_digest", String(64), nullable=False, index=True),  # the key without the version
    Column("supersedes", String(16), index=True),
    Column("operation", String(16), nullable=False),
    Column("kind", String(32), nullable=False),  # of the metric
    Column("metric", String(256), nullable=False),
    Column("params_id", String(64), nullable=False),
    Column("first_day", String(10)),
    Column("last_day", String(10)),
    Column("version", String(200), nullable=False),
    Column("manifest", Text, nullable=False),
    Column("summary", Text, nullable=False),
    Column("released", Boolean, nullable=False),
    Column("created", Double, nullable=False),
    Column("released_by", String(16)),  # id of a person, who may take it back
    Column("stored", BigInteger, nullable=False, server_default="0"),  # bytes of its files, packed
)
Index("results_created", results.c.created, results.c.id)
Index("results_released", results.c.released, results.c.created)
Index("results_metric", results.c.metric, results.c.params_id)

result_files = Table(
    "result_files",
    metadata,
    Column("result_id", String(16), ForeignKey("results.id"), primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("sha256", String(64), nullable=False),
    Column("size", Integer, nullable=False),  # bytes, before compression
    Column("content", LargeBinary, nullable=False),  # zlib
)

result_readers = Table(
    "result_readers",
    metadata,
    Column("result_id", String(16), ForeignKey("results.id"), primary_key=True),
    Column("person_id", String(16), ForeignKey("people.id"), primary_key=True),
)
Index("result_readers_person", result_readers.c.person_id, result_readers.c.result_id)

# Each change of state is one UPDATE that names the token and the attempt of who held the job.
jobs = Table(
    "jobs",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("operation", String(16), nullable=False),
    Column("metric", String(256), nullable=False),
    Column("spec", Text, nullable=False),
    Column("spec_digest", String(64), nullable=False),
    Column("state", String(16), nullable=False),
    Column("stage", String(100), nullable=False),
    Column("done", Integer, nullable=False),
    Column("total", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("max_attempts", Integer, nullable=False),
    Column("owner", String(16), ForeignKey("people.id"), nullable=False),
    Column("worker", String(32)),
    Column("token", String(32)),
    Column("lease", Double),
    Column("priority", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("created", Double, nullable=False),
    Column("started", Double),
    Column("ended", Double),
    Column("result_id", String(16), ForeignKey("results.id")),
    Column("checks", String(16), ForeignKey("results.id")),  # decode again, compare the bytes
    Column("check_key", String(16), nullable=False),  # `checks`, or "": NULLs are never equal
)
_LIVE = text("state IN ('queued', 'running', 'cancelling')")
Index("jobs_live", jobs.c.owner, jobs.c.spec_digest, jobs.c.check_key, unique=True,
      sqlite_where=_LIVE, postgresql_where=_LIVE)  # fmt: skip
Index("jobs_state", jobs.c.state, jobs.c.owner, jobs.c.created)
Index("jobs_owner", jobs.c.owner, jobs.c.started)
Index("jobs_created", jobs.c.created, jobs.c.id)

workers = Table(
    "workers",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("host", String(200), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("slots", Integer, nullable=False),
    Column("started", Double, nullable=False),
    Column("seen", Double, nullable=False),
)

# A window is decoded once: its job's specification has one result.
schedules = Table(
    "schedules",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("owner", String(16), ForeignKey("people.id"), nullable=False),
    Column("metric", String(256), nullable=False),
    Column("every", String(16), nullable=False),  # day, week, month
    Column("spec", Text, nullable=False),  # of the job, without its window
    Column("enabled", Boolean, nullable=False),
    Column("created", Double, nullable=False),
    Column("family", String(16), nullable=False, server_default="window"),  # window, series
    Column("first_day", String(10)),  # nothing before it is decoded
    UniqueConstraint("owner", "name"),
)

# A window is there once for one specification (`digest`: of the options and the list's content).
schedule_windows = Table(
    "schedule_windows",
    metadata,
    Column("schedule_id", String(16), ForeignKey("schedules.id"), primary_key=True),
    Column("digest", String(64), primary_key=True),
    Column("params_id", String(64), primary_key=True),
    Column("first_day", String(10), primary_key=True),
    Column("last_day", String(10), nullable=False),
    Column("num_reports", BigInteger, nullable=False),
    Column("state", String(16), nullable=False),  # empty, waiting, done, failed, cancelled
    Column("tries", Integer, nullable=False),
    Column("job_id", String(16)),
    Column("result_id", String(16)),
)

# Values that a window of a schedule showed already: of each, one alarm at most.
schedule_values = Table(
    "schedule_values",
    metadata,
    Column("schedule_id", String(16), ForeignKey("schedules.id"), primary_key=True),
    Column("params_id", String(64), primary_key=True),
    Column("value_sha256", String(64), primary_key=True),
)

# What the collector had counted when a day was first looked at.
readings = Table(
    "readings",
    metadata,
    Column("day", String(10), primary_key=True),
    Column("accepted", Double, nullable=False),
    Column("refused", Double, nullable=False),
)

alarms = Table(
    "alarms",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("schedule_id", String(16), ForeignKey("schedules.id"), nullable=False, index=True),
    Column("name", String(200), nullable=False),
    Column("target", String(1000), nullable=False),  # a name of the setting alarm_urls
    Column("rules", Text, nullable=False),
    Column("show_values", Boolean, nullable=False),
    Column("created", Double, nullable=False),
)

# An event is stored once: its key is unique, and inserted with the change that it comes from.
alarm_events = Table(
    "alarm_events",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("alarm_id", String(16), ForeignKey("alarms.id"), nullable=False),
    Column("cause", String(200), nullable=False),
    Column("body", Text, nullable=False),
    Column("state", String(16), nullable=False),  # waiting, sent, failed
    Column("tries", Integer, nullable=False),
    Column("due", Double, nullable=False),
    Column("reason", Text, nullable=False),
    Column("created", Double, nullable=False),
    Column("sent", Double),
    UniqueConstraint("alarm_id", "cause"),
)
Index("alarm_events_due", alarm_events.c.state, alarm_events.c.due)

# A state is changed once, by one UPDATE that asks for `proposed`.
releases = Table(
    "releases",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("number", Integer, nullable=False),  # of the approved ones of this name, from 1
    Column("state", String(16), nullable=False),  # proposed, approved, rejected, withdrawn
    Column("proposer", String(16), ForeignKey("people.id"), nullable=False, index=True),
    Column("owner", String(500), nullable=False),  # as the policy says, cut
    Column("audience", String(500), nullable=False),
    Column("issued", String(10), nullable=False),
    Column("digest", String(64), nullable=False),  # SHA-256 of its manifest
    Column("policy", Text, nullable=False),  # text of release.toml
    Column("sources", Text, nullable=False),  # JSON: results and strata
    Column("note", Text, nullable=False),  # of the proposer
    Column("base", String(16), ForeignKey("releases.id")),  # that the difference is against
    Column("changes", Integer, nullable=False),  # rows of the difference
    Column("difference", LargeBinary, nullable=False),  # zlib of JSON
    Column("stored", Integer, nullable=False),  # bytes of its files as they are kept
    Column("created", Double, nullable=False),
    Column("reviewer", String(16), ForeignKey("people.id")),
    Column("reason", Text, nullable=False),  # of the decision
    Column("decided", Double),
)
_APPROVED = text("state = 'approved'")
Index("releases_number", releases.c.name, releases.c.number, unique=True,
      sqlite_where=_APPROVED, postgresql_where=_APPROVED)  # fmt: skip
Index("releases_state", releases.c.state, releases.c.created)

release_files = Table(
    "release_files",
    metadata,
    Column("release_id", String(16), ForeignKey("releases.id"), primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("sha256", String(64), nullable=False),
    Column("size", Integer, nullable=False),  # bytes, before compression
    Column("content", LargeBinary, nullable=False),  # zlib
)

# A release is built on all approved ones of its metrics: `number` counts those of a metric, and
# of two that were built on the same ones only one can be approved.
release_metrics = Table(
    "release_metrics",
    metadata,
    Column("release_id", String(16), ForeignKey("releases.id"), primary_key=True),
    Column("metric", String(256), primary_key=True),
    Column("number", Integer, nullable=False),
    Column("approved", Boolean, nullable=False),
)
_PUBLIC = text("approved")
Index("release_metrics_number", release_metrics.c.metric, release_metrics.c.number, unique=True,
      sqlite_where=_PUBLIC, postgresql_where=_PUBLIC)  # fmt: skip


# The state of a schedule when some process last checked it; `paused` is in `schedules.enabled`.
schedule_statuses = Table(
    "schedule_statuses",
    metadata,
    Column("schedule_id", String(16), ForeignKey("schedules.id"), primary_key=True),
    Column("state", String(16), nullable=False),  # ready, waiting, blocked
    Column("reason", Text, nullable=False),
    Column("since", Double, nullable=False),
    Column("checked", Double, nullable=False),
)
