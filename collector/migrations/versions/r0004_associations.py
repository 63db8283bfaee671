"""Associations: which two metrics' linked reports are counted together, in a series of its own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables of definitions and of days; the counters stand in those of metrics."""
    op.create_table(
        "associations",
        sa.Column("name", sa.String(128), primary_key=True),
        sa.Column("params_id", sa.String(32), primary_key=True),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("definition", sa.Text, nullable=False),
        sa.Column("retired", sa.Boolean, nullable=False),
    )
    op.create_table(
        "linked_days",
        sa.Column("block_id", sa.Integer, sa.ForeignKey("blocks.id"), primary_key=True),
        sa.Column("cohort", sa.Integer, primary_key=True),
        sa.Column("day", sa.Integer, primary_key=True),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Drop them, with the counters of linked reports; those of the metrics stay."""
    linked = (
        "SELECT s.id FROM series AS s JOIN associations AS a "
        "ON a.name = s.name AND a.params_id = s.params_id"
    )
    op.drop_table("linked_days")
    op.execute(f"DELETE FROM counters WHERE series_id IN ({linked})")  # noqa: S608 (no input)
    blocks = f"SELECT id FROM blocks WHERE series_id IN ({linked})"  # noqa: S608
    op.execute(f"DELETE FROM block_counts WHERE block_id IN ({blocks})")  # noqa: S608
    op.execute(f"DELETE FROM blocks WHERE series_id IN ({linked})")  # noqa: S608
    op.execute(f"DELETE FROM series WHERE id IN ({linked})")  # noqa: S608
    op.drop_table("associations")
