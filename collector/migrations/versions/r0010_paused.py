"""Metrics can be paused."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; nothing is paused."""
    op.add_column(
        "metrics", sa.Column("paused", sa.Boolean, nullable=False, server_default=sa.false())
    )
