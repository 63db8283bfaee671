"""The last day that a collector has seen, by which its clock is checked."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; no day is known yet."""
    op.add_column("state", sa.Column("last_day", sa.Integer))
