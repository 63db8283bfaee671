"""How each schedule stood when a process last checked it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009_standings"
down_revision = "0008_weights"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table; the next check fills it."""
    schedule = sa.ForeignKey("schedules.id")
    op.create_table(
        "schedule_standings",
        sa.Column("schedule_id", sa.String(length=16), schedule, primary_key=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("checked", sa.Double(), nullable=False),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("schedule_standings")
