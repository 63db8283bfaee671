"""First tables: metrics, counters of open days, blocks of closed ones, batches, keys, audit."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables, and the one row of `state`."""
    state = op.create_table(
        "state",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    _make_metrics()
    _make_counters()
    _make_blocks()
    _make_batches()
    _make_access()
    op.bulk_insert(state, [{"id": 1, "version": 0}])


def downgrade() -> None:
    """Drop every table, and all that was collected with them."""
    for table in (
        "audit",
        "keys",
        "raw_reports",
        "batches",
        "block_counts",
        "blocks",
        "counters",
        "series",
        "frontiers",
        "metrics",
        "state",
    ):
        op.drop_table(table)


def _make_metrics() -> None:
    op.create_table(
        "metrics",
        sa.Column("name", sa.String(128), primary_key=True),
        sa.Column("params_id", sa.String(32), primary_key=True),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("definition", sa.Text, nullable=False),
        sa.Column("retired", sa.Boolean, nullable=False),
    )
    op.create_table(
        "frontiers",
        sa.Column("metric", sa.String(128), primary_key=True),
        sa.Column("closed_through", sa.Integer, nullable=False),
    )
    op.create_table(
        "series",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("params_id", sa.String(32), nullable=False),
        sa.Column("metric", sa.String(128), nullable=False),
        sa.UniqueConstraint("name", "params_id"),
    )


def _make_counters() -> None:
    op.create_table(
        "counters",
        sa.Column("series_id", sa.Integer, sa.ForeignKey("series.id"), primary_key=True),
        sa.Column("day", sa.Integer, primary_key=True),
        sa.Column("shard", sa.Integer, primary_key=True),
        sa.Column("cohort", sa.Integer, primary_key=True),
        sa.Column("num_reports", sa.BigInteger, nullable=False),
        sa.Column("counts", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )


def _make_blocks() -> None:
    op.create_table(
        "blocks",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("series_id", sa.Integer, sa.ForeignKey("series.id"), nullable=False),
        sa.Column("first_day", sa.Integer, nullable=False),
        sa.Column("last_day", sa.Integer, nullable=False),
        sa.Column("num_reports", sa.BigInteger, nullable=False),
        sa.Column("sealed", sa.Boolean, nullable=False),
        sa.UniqueConstraint("series_id", "first_day"),
    )
    op.create_table(
        "block_counts",
        sa.Column("block_id", sa.Integer, sa.ForeignKey("blocks.id"), primary_key=True),
        sa.Column("cohort", sa.Integer, primary_key=True),
        sa.Column("num_reports", sa.BigInteger, nullable=False),
        sa.Column("counts", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )


def _make_batches() -> None:
    op.create_table(
        "batches",
        sa.Column("batch_id", sa.LargeBinary(16), primary_key=True),
        sa.Column("digest", sa.LargeBinary(16), nullable=False),
        sa.Column("expires", sa.Integer, nullable=False),
        sa.Column("num_reports", sa.Integer, nullable=False),
        sa.Column("results", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("batches_expires", "batches", ["expires"])
    op.create_table(
        "raw_reports",
        sa.Column("series_id", sa.Integer, sa.ForeignKey("series.id"), primary_key=True),
        sa.Column("day", sa.Integer, primary_key=True),
        sa.Column("cohort", sa.Integer, primary_key=True),
        sa.Column("mark", sa.LargeBinary(8), primary_key=True),
        sa.Column("bits", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )


def _make_access() -> None:
    op.create_table(
        "keys",
        sa.Column("key_id", sa.String(16), primary_key=True),
        sa.Column("scope", sa.String(16), nullable=False),
        sa.Column("label", sa.String(200), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(32), nullable=False),
        sa.Column("created", sa.Integer, nullable=False),
        sa.Column("revoked", sa.Integer),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("actor", sa.String(64), nullable=False),
        sa.Column("act", sa.String(64), nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
    )
