"""In PostgreSQL, rates that processes may share: see `store.rate_limits`."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make a table that is not logged."""
    if op.get_bind().dialect.name == "postgresql":
        op.create_table(
            "rate_limits",
            sa.Column("name", sa.LargeBinary(16), primary_key=True),
            sa.Column("full_at", sa.Double, nullable=False),
            prefixes=["UNLOGGED"],
        )


def downgrade() -> None:
    """Drop it."""
    if op.get_bind().dialect.name == "postgresql":
        op.drop_table("rate_limits")
