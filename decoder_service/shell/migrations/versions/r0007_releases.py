"""Releases: proposed, and approved or rejected by a second person."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007_releases"
down_revision = "0006_aggregate_kinds"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    _releases()
    op.create_table(
        "release_files",
        sa.Column(
            "release_id", sa.String(length=16), sa.ForeignKey("releases.id"), primary_key=True
        ),
        sa.Column("name", sa.String(length=64), primary_key=True),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
    )
    op.create_table(
        "release_metrics",
        sa.Column(
            "release_id", sa.String(length=16), sa.ForeignKey("releases.id"), primary_key=True
        ),
        sa.Column("metric", sa.String(length=256), primary_key=True),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("approved", sa.Boolean(), nullable=False),
    )
    _one_approved("release_metrics_number", "release_metrics", "metric", "approved")


def _releases() -> None:
    op.create_table(
        "releases",
        sa.Column("id", sa.String(length=16), primary_key=True),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("proposer", sa.String(length=16), sa.ForeignKey("people.id"), nullable=False),
        sa.Column("owner", sa.String(length=500), nullable=False),
        sa.Column("audience", sa.String(length=500), nullable=False),
        sa.Column("issued", sa.String(length=10), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("sources", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("base", sa.String(length=16), sa.ForeignKey("releases.id")),
        sa.Column("changes", sa.Integer(), nullable=False),
        sa.Column("difference", sa.LargeBinary(), nullable=False),
        sa.Column("stored", sa.Integer(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("reviewer", sa.String(length=16), sa.ForeignKey("people.id")),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("decided", sa.Double()),
    )
    op.create_index("ix_releases_proposer", "releases", ["proposer"])
    op.create_index("releases_state", "releases", ["state", "created"])
    _one_approved("releases_number", "releases", "name", "state = 'approved'")


def _one_approved(name: str, table: str, column: str, approved: str) -> None:
    which = sa.text(approved)
    op.create_index(
        name,
        table,
        [column, "number"],
        unique=True,
        sqlite_where=which,
        postgresql_where=which,
    )


def downgrade() -> None:
    """Drop them."""
    for table in ("release_metrics", "release_files", "releases"):
        op.drop_table(table)
