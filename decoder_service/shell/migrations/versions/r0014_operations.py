"""The tables of version 0.3.0, written out as they stay; no version before it was released."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014_operations"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create them, those first that others point at."""
    _people()
    _inputs()
    _results()
    _work()
    _schedules()
    _alarms()
    _releases()


def _people() -> None:
    """Who signs in, and what they did."""
    op.create_table(
        "people",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "keys",
        sa.Column("key_id", sa.String(16), primary_key=True),
        sa.Column("person_id", sa.String(16), sa.ForeignKey("people.id"), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("label", sa.String(200), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("revoked", sa.Double()),
    )
    op.create_table(
        "identities",
        sa.Column("issuer", sa.String(500), primary_key=True),
        sa.Column("subject", sa.String(255), primary_key=True),
        sa.Column("person_id", sa.String(16), sa.ForeignKey("people.id"), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("seen", sa.Double(), nullable=False),
        sa.Column("revoked", sa.Double()),
        sa.UniqueConstraint("person_id"),
    )
    op.create_table(
        "sessions",
        sa.Column("token_hash", sa.LargeBinary(), primary_key=True),
        sa.Column("person_id", sa.String(16), sa.ForeignKey("people.id"), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("key_id", sa.String(16), sa.ForeignKey("keys.key_id")),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("actor", sa.String(200), nullable=False),
        sa.Column("key_id", sa.String(16), nullable=False),
        sa.Column("act", sa.String(64), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
    )


def _inputs() -> None:
    """Counts and lists."""
    op.create_table(
        "aggregates",
        sa.Column("sha256", sa.String(64), primary_key=True),
        sa.Column("metric", sa.String(256), nullable=False),
        sa.Column("params_id", sa.String(64), nullable=False),
        sa.Column("first_day", sa.String(10)),
        sa.Column("last_day", sa.String(10)),
        sa.Column("num_reports", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("kind", sa.String(32)),
        sa.Column("num_cohorts", sa.Integer()),
        sa.Column("own_values", sa.Boolean()),
    )
    op.create_table(
        "aggregate_readers",
        sa.Column("sha256", sa.String(64), sa.ForeignKey("aggregates.sha256"), primary_key=True),
        sa.Column("person_id", sa.String(16), sa.ForeignKey("people.id"), primary_key=True),
    )
    op.create_index("aggregates_created", "aggregates", ["created"])
    op.create_index("aggregate_readers_person", "aggregate_readers", ["person_id", "sha256"])
    op.create_table(
        "list_contents",
        sa.Column("sha256", sa.String(64), primary_key=True),
        sa.Column("content", sa.LargeBinary(), nullable=False),
    )
    op.create_table(
        "lists",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("owner", sa.String(16), sa.ForeignKey("people.id"), nullable=False),
        sa.Column("visibility", sa.String(16), nullable=False),
        sa.Column("source", sa.String(1000), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False, server_default="candidates"),
        sa.UniqueConstraint("owner", "name"),
    )
    op.create_table(
        "list_versions",
        sa.Column("list_id", sa.String(16), sa.ForeignKey("lists.id"), primary_key=True),
        sa.Column("number", sa.Integer(), primary_key=True),
        sa.Column("sha256", sa.String(64), sa.ForeignKey("list_contents.sha256"), nullable=False),
        sa.Column("entries", sa.Integer(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
    )


def _work() -> None:
    """Workers, schedules and jobs, whose results are there."""
    op.create_table(
        "workers",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("host", sa.String(200), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("started", sa.Double(), nullable=False),
        sa.Column("seen", sa.Double(), nullable=False),
    )
    op.create_table(
        "schedules",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("owner", sa.String(16), sa.ForeignKey("people.id"), nullable=False),
        sa.Column("metric", sa.String(256), nullable=False),
        sa.Column("every", sa.String(16), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("family", sa.String(16), nullable=False, server_default="window"),
        sa.Column("first_day", sa.String(10)),
        sa.UniqueConstraint("owner", "name"),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("operation", sa.String(16), nullable=False),
        sa.Column("metric", sa.String(256), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("spec_digest", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("stage", sa.String(100), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(16), sa.ForeignKey("people.id"), nullable=False),
        sa.Column("worker", sa.String(32)),
        sa.Column("token", sa.String(32)),
        sa.Column("lease", sa.Double()),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("started", sa.Double()),
        sa.Column("ended", sa.Double()),
        sa.Column("result_id", sa.String(16), sa.ForeignKey("results.id")),
        sa.Column("checks", sa.String(16), sa.ForeignKey("results.id")),
        sa.Column("check_key", sa.String(16), nullable=False),
    )
    op.create_index(
        "jobs_live",
        "jobs",
        ["owner", "spec_digest", "check_key"],
        unique=True,
        sqlite_where=sa.text("state IN ('queued', 'running', 'cancelling')"),
        postgresql_where=sa.text("state IN ('queued', 'running', 'cancelling')"),
    )
    op.create_index("jobs_owner", "jobs", ["owner", "started"])
    op.create_index("jobs_state", "jobs", ["state", "owner", "created"])
    op.create_index("jobs_created", "jobs", ["created", "id"])


def _results() -> None:
    """Results, their files and who may read them."""
    op.create_table(
        "results",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("input_digest", sa.String(64), nullable=False),
        sa.Column("supersedes", sa.String(16)),
        sa.Column("operation", sa.String(16), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("metric", sa.String(256), nullable=False),
        sa.Column("params_id", sa.String(64), nullable=False),
        sa.Column("first_day", sa.String(10)),
        sa.Column("last_day", sa.String(10)),
        sa.Column("version", sa.String(200), nullable=False),
        sa.Column("manifest", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("released", sa.Boolean(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("released_by", sa.String(16)),
        sa.Column("stored", sa.BigInteger(), nullable=False, server_default="0"),
        sa.UniqueConstraint("key"),
    )
    op.create_index("ix_results_input_digest", "results", ["input_digest"])
    op.create_index("ix_results_supersedes", "results", ["supersedes"])
    op.create_index("results_created", "results", ["created", "id"])
    op.create_index("results_released", "results", ["released", "created"])
    op.create_index("results_metric", "results", ["metric", "params_id"])
    op.create_table(
        "result_files",
        sa.Column("result_id", sa.String(16), sa.ForeignKey("results.id"), primary_key=True),
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
    )
    op.create_table(
        "result_readers",
        sa.Column("result_id", sa.String(16), sa.ForeignKey("results.id"), primary_key=True),
        sa.Column("person_id", sa.String(16), sa.ForeignKey("people.id"), primary_key=True),
    )
    op.create_index("result_readers_person", "result_readers", ["person_id", "result_id"])


def _schedules() -> None:
    """What schedules and daily series did."""
    op.create_table(
        "schedule_windows",
        sa.Column("schedule_id", sa.String(16), sa.ForeignKey("schedules.id"), primary_key=True),
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("params_id", sa.String(64), primary_key=True),
        sa.Column("first_day", sa.String(10), primary_key=True),
        sa.Column("last_day", sa.String(10), nullable=False),
        sa.Column("num_reports", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.String(16)),
        sa.Column("result_id", sa.String(16)),
    )
    op.create_table(
        "schedule_values",
        sa.Column("schedule_id", sa.String(16), sa.ForeignKey("schedules.id"), primary_key=True),
        sa.Column("params_id", sa.String(64), primary_key=True),
        sa.Column("value_sha256", sa.String(64), primary_key=True),
    )
    op.create_table(
        "schedule_statuses",
        sa.Column("schedule_id", sa.String(16), sa.ForeignKey("schedules.id"), primary_key=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("checked", sa.Double(), nullable=False),
    )
    op.create_table(
        "daily_series",
        sa.Column("metric", sa.String(256), primary_key=True),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("list_id", sa.String(16)),
        sa.Column("asked", sa.String(64), nullable=False),
        sa.Column("job_id", sa.String(16)),
        sa.Column("result_id", sa.String(16)),
        sa.Column("problem", sa.Text(), nullable=False),
    )
    op.create_table(
        "readings",
        sa.Column("day", sa.String(10), primary_key=True),
        sa.Column("accepted", sa.Double(), nullable=False),
        sa.Column("refused", sa.Double(), nullable=False),
    )


def _alarms() -> None:
    """Alarms, and what they told."""
    op.create_table(
        "alarms",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("schedule_id", sa.String(16), sa.ForeignKey("schedules.id"), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("channel", sa.String(16), nullable=False),
        sa.Column("target", sa.String(1000), nullable=False),
        sa.Column("secret", sa.String(64), nullable=False),
        sa.Column("rules", sa.Text(), nullable=False),
        sa.Column("show_values", sa.Boolean(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
    )
    op.create_index("ix_alarms_schedule_id", "alarms", ["schedule_id"])
    op.create_table(
        "alarm_events",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("alarm_id", sa.String(16), sa.ForeignKey("alarms.id"), nullable=False),
        sa.Column("cause", sa.String(200), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("due", sa.Double(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("sent", sa.Double()),
        sa.UniqueConstraint("alarm_id", "cause"),
    )
    op.create_index("alarm_events_due", "alarm_events", ["state", "due"])


def _releases() -> None:
    """Releases, proposed and approved."""
    op.create_table(
        "releases",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("proposer", sa.String(16), sa.ForeignKey("people.id"), nullable=False),
        sa.Column("owner", sa.String(500), nullable=False),
        sa.Column("audience", sa.String(500), nullable=False),
        sa.Column("issued", sa.String(10), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("sources", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("base", sa.String(16), sa.ForeignKey("releases.id")),
        sa.Column("changes", sa.Integer(), nullable=False),
        sa.Column("difference", sa.LargeBinary(), nullable=False),
        sa.Column("stored", sa.Integer(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("reviewer", sa.String(16), sa.ForeignKey("people.id")),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("decided", sa.Double()),
    )
    op.create_index("ix_releases_proposer", "releases", ["proposer"])
    op.create_index(
        "releases_number",
        "releases",
        ["name", "number"],
        unique=True,
        sqlite_where=sa.text("state = 'approved'"),
        postgresql_where=sa.text("state = 'approved'"),
    )
    op.create_index("releases_state", "releases", ["state", "created"])
    op.create_table(
        "release_files",
        sa.Column("release_id", sa.String(16), sa.ForeignKey("releases.id"), primary_key=True),
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
    )
    op.create_table(
        "release_metrics",
        sa.Column("release_id", sa.String(16), sa.ForeignKey("releases.id"), primary_key=True),
        sa.Column("metric", sa.String(256), primary_key=True),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("approved", sa.Boolean(), nullable=False),
    )
    op.create_index(
        "release_metrics_number",
        "release_metrics",
        ["metric", "number"],
        unique=True,
        sqlite_where=sa.text("approved"),
        postgresql_where=sa.text("approved"),
    )
