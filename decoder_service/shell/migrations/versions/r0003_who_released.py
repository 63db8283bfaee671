"""Who released a result."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003_released_by"
down_revision = "0002_schedules"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add it. Of what was released before it is not known: whoever had it may take it back."""
    op.add_column("results", sa.Column("released_by", sa.String(length=16)))


def downgrade() -> None:
    """Drop it."""
    with op.batch_alter_table("results") as altered:
        altered.drop_column("released_by")
