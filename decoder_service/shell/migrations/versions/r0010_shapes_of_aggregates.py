"""How many cohorts an aggregate has, and whether its metric lists its values."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010_aggregate_shapes"
down_revision = "0009_standings"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; of the aggregates that are there it stays unknown."""
    op.add_column("aggregates", sa.Column("num_cohorts", sa.Integer()))
    op.add_column("aggregates", sa.Column("own_values", sa.Boolean()))


def downgrade() -> None:
    """Drop them."""
    with op.batch_alter_table("aggregates") as altered:
        altered.drop_column("num_cohorts")
        altered.drop_column("own_values")
