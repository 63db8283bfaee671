"""The table of schedules' states gets the name that the code has for them."""

from __future__ import annotations

from alembic import op

revision = "0011_schedule_statuses"
down_revision = "0010_aggregate_shapes"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Rename it."""
    op.rename_table("schedule_standings", "schedule_statuses")


def downgrade() -> None:
    """Give the old name back."""
    op.rename_table("schedule_statuses", "schedule_standings")
