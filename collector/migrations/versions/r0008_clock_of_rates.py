"""In PostgreSQL, when a shared rate was changed, so that a clock that is set back is noticed.

What the table held is of the last seconds, and is not kept.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table anew, with the column."""
    _make(sa.Column("changed_at", sa.Double, nullable=False))


def downgrade() -> None:
    """Make it anew without."""
    _make()


def _make(*more: sa.Column[float]) -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.drop_table("rate_limits")
        op.create_table(
            "rate_limits",
            sa.Column("name", sa.LargeBinary(16), primary_key=True),
            sa.Column("full_at", sa.Double, nullable=False),
            *more,
            prefixes=["UNLOGGED"],
        )
