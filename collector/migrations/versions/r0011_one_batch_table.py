"""In PostgreSQL remembered batches are one table, as in SQLite, and rates are not shared."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Move the batches of all partitions into one table, each for as long as its partition."""
    if op.get_bind().dialect.name != "postgresql":
        return
    op.rename_table("batches", "partitioned_batches")
    op.create_table(
        "batches",
        sa.Column("batch_hash", sa.LargeBinary(16), primary_key=True),
        sa.Column("digest", sa.LargeBinary(16), nullable=False),
        sa.Column("expires", sa.Integer, nullable=False),
        sa.Column("num_reports", sa.Integer, nullable=False),
        sa.Column("results", sa.LargeBinary, nullable=False),
    )
    op.execute(
        "INSERT INTO batches SELECT batch_hash, digest, expires, num_reports, results "
        "FROM partitioned_batches JOIN batch_partitions ON id = partition_id "
        "ON CONFLICT DO NOTHING"
    )
    for what in (
        "TABLE partitioned_batches",  # and its partitions
        "TABLE batch_partitions",
        "SEQUENCE batch_partition_ids",
        "TABLE rate_limits",
    ):
        op.execute(f"DROP {what}")
