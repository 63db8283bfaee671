"""The table of daily series."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013_daily_series"
down_revision = "0012_input_digests"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create it."""
    op.create_table(
        "daily_series",
        sa.Column("metric", sa.String(256), primary_key=True),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("list_id", sa.String(16)),
        sa.Column("asked", sa.String(64), nullable=False),
        sa.Column("job_id", sa.String(16)),
        sa.Column("result_id", sa.String(16)),
        sa.Column("problem", sa.Text, nullable=False),
    )


def downgrade() -> None:
    """Drop it; series that were decoded stay results."""
    op.drop_table("daily_series")
