"""Rates are those of each process and key: the table of rates that processes shared goes."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Drop the table, which only PostgreSQL had."""
    op.execute("DROP TABLE IF EXISTS rate_limits")
