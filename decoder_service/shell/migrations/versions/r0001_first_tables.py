"""First tables: people, lists, aggregates, results, jobs, schedules."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001_decoder"
down_revision = None
branch_labels = None
depends_on = None

_LIVE = sa.text("state IN ('queued', 'running', 'cancelling')")


def upgrade() -> None:
    """Make the tables."""
    _make_people()
    _make_lists()
    _make_results()
    _make_jobs()


def downgrade() -> None:
    """Drop every table, and all that was computed with them."""
    for table in (
        "sessions",
        "list_versions",
        "schedules",
        "result_readers",
        "result_files",
        "lists",
        "keys",
        "jobs",
        "aggregate_readers",
        "workers",
        "results",
        "people",
        "list_contents",
        "audit",
        "aggregates",
    ):
        op.drop_table(table)


def _make_people() -> None:
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("actor", sa.String(length=200), nullable=False),
        sa.Column("key_id", sa.String(length=16), nullable=False),
        sa.Column("act", sa.String(length=64), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "people",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "keys",
        sa.Column("key_id", sa.String(length=16), nullable=False),
        sa.Column("person_id", sa.String(length=16), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("label", sa.String(length=200), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("revoked", sa.Double()),
        sa.ForeignKeyConstraint(
            ["person_id"],
            ["people.id"],
        ),
        sa.PrimaryKeyConstraint("key_id"),
    )
    op.create_table(
        "sessions",
        sa.Column("token_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("person_id", sa.String(length=16), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("key_id", sa.String(length=16)),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["key_id"],
            ["keys.key_id"],
        ),
        sa.ForeignKeyConstraint(
            ["person_id"],
            ["people.id"],
        ),
        sa.PrimaryKeyConstraint("token_hash"),
    )


def _make_lists() -> None:
    op.create_table(
        "aggregates",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("metric", sa.String(length=256), nullable=False),
        sa.Column("params_id", sa.String(length=64), nullable=False),
        sa.Column("first_day", sa.String(length=10)),
        sa.Column("last_day", sa.String(length=10)),
        sa.Column("num_reports", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("sha256"),
    )
    op.create_table(
        "list_contents",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("sha256"),
    )
    op.create_table(
        "aggregate_readers",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("person_id", sa.String(length=16), nullable=False),
        sa.ForeignKeyConstraint(
            ["person_id"],
            ["people.id"],
        ),
        sa.ForeignKeyConstraint(
            ["sha256"],
            ["aggregates.sha256"],
        ),
        sa.PrimaryKeyConstraint("sha256", "person_id"),
    )
    op.create_table(
        "lists",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("owner", sa.String(length=16), nullable=False),
        sa.Column("visibility", sa.String(length=16), nullable=False),
        sa.Column("source", sa.String(length=1000), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["owner"],
            ["people.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("owner", "name"),
    )
    op.create_table(
        "list_versions",
        sa.Column("list_id", sa.String(length=16), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("entries", sa.Integer(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["list_id"],
            ["lists.id"],
        ),
        sa.ForeignKeyConstraint(
            ["sha256"],
            ["list_contents.sha256"],
        ),
        sa.PrimaryKeyConstraint("list_id", "number"),
    )


def _make_results() -> None:
    op.create_table(
        "results",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("question", sa.String(length=64), nullable=False),
        sa.Column("supersedes", sa.String(length=16)),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("metric", sa.String(length=256), nullable=False),
        sa.Column("params_id", sa.String(length=64), nullable=False),
        sa.Column("first_day", sa.String(length=10)),
        sa.Column("last_day", sa.String(length=10)),
        sa.Column("version", sa.String(length=200), nullable=False),
        sa.Column("manifest", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("released", sa.Boolean(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
    )
    op.create_index("ix_results_question", "results", ["question"])
    op.create_table(
        "result_files",
        sa.Column("result_id", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["result_id"],
            ["results.id"],
        ),
        sa.PrimaryKeyConstraint("result_id", "name"),
    )
    op.create_table(
        "result_readers",
        sa.Column("result_id", sa.String(length=16), nullable=False),
        sa.Column("person_id", sa.String(length=16), nullable=False),
        sa.ForeignKeyConstraint(
            ["person_id"],
            ["people.id"],
        ),
        sa.ForeignKeyConstraint(
            ["result_id"],
            ["results.id"],
        ),
        sa.PrimaryKeyConstraint("result_id", "person_id"),
    )


def _make_jobs() -> None:
    op.create_table(
        "workers",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("host", sa.String(length=200), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("started", sa.Double(), nullable=False),
        sa.Column("seen", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("metric", sa.String(length=256), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("spec_digest", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("stage", sa.String(length=100), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(length=16), nullable=False),
        sa.Column("worker", sa.String(length=32)),
        sa.Column("token", sa.String(length=32)),
        sa.Column("lease", sa.Double()),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("started", sa.Double()),
        sa.Column("ended", sa.Double()),
        sa.Column("result_id", sa.String(length=16)),
        sa.Column("checks", sa.String(length=16)),
        sa.Column("check_key", sa.String(length=16), nullable=False),
        sa.ForeignKeyConstraint(
            ["checks"],
            ["results.id"],
        ),
        sa.ForeignKeyConstraint(
            ["owner"],
            ["people.id"],
        ),
        sa.ForeignKeyConstraint(
            ["result_id"],
            ["results.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "jobs_live",
        "jobs",
        ["owner", "spec_digest", "check_key"],
        unique=True,
        sqlite_where=_LIVE,
        postgresql_where=_LIVE,
    )
    op.create_index("jobs_owner", "jobs", ["owner", "started"])
    op.create_index("jobs_state", "jobs", ["state", "owner", "created"])
    op.create_table(
        "schedules",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("owner", sa.String(length=16), nullable=False),
        sa.Column("metric", sa.String(length=256), nullable=False),
        sa.Column("every", sa.String(length=16), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["owner"],
            ["people.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("owner", "name"),
    )
