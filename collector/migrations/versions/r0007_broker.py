"""How far the messages of a broker are counted: see `store.broker`."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make three tables, all empty: no broker feeds the database until one is named."""
    op.create_table(
        "broker_positions",
        sa.Column("topic", sa.String(249), primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("next_offset", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "broker_skipped",
        sa.Column("topic", sa.String(249), primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True),
        sa.Column("first_offset", sa.BigInteger, primary_key=True),
        sa.Column("last_offset", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.String(32), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "broker_state",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("counted_before", sa.Integer, nullable=False),
        sa.Column("ignored_before", sa.Integer, nullable=False),
        sa.Column("refused", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    """Drop them: messages that a broker still holds would be counted again if it came back."""
    for table in ("broker_state", "broker_skipped", "broker_positions"):
        op.drop_table(table)
