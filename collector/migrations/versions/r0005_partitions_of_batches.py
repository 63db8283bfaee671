"""In PostgreSQL, batches are remembered in partitions: see `store.batch_partitions`.

The table that is there becomes the first partition as it is: its rows are read once, to check that
they belong there, and not written. SQLite stays as it is.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_PARENT = (
    "CREATE TABLE batches (batch_hash bytea NOT NULL, digest bytea NOT NULL, "
    "partition_id integer NOT NULL, num_reports integer NOT NULL, results bytea NOT NULL) "
    "PARTITION BY LIST (partition_id)"
)
_PLAIN = (
    "INSERT INTO batches_in_one SELECT b.batch_hash, b.digest, p.expires, b.num_reports, b.results "
    "FROM batches AS b JOIN batch_partitions AS p ON p.id = b.partition_id"
)


def upgrade() -> None:
    """Attach what is there, for as long as its last batch is needed."""
    if op.get_bind().dialect.name != "postgresql":
        return
    op.create_table(
        "batch_partitions",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("expires", sa.Integer, nullable=False),
    )
    op.execute("CREATE SEQUENCE batch_partition_ids")
    op.execute("INSERT INTO batch_partitions SELECT 0, coalesce(max(expires), -1) FROM batches")
    op.drop_index("batches_expires", "batches")
    op.rename_table("batches", "batches_0")
    op.execute("ALTER INDEX batches_pkey RENAME TO batches_0_pkey")
    op.drop_column("batches_0", "expires")
    op.execute("ALTER TABLE batches_0 ADD COLUMN partition_id integer NOT NULL DEFAULT 0")
    op.execute(_PARENT)
    op.execute("ALTER TABLE batches ATTACH PARTITION batches_0 FOR VALUES IN (0)")


def downgrade() -> None:
    """Copy all into one table, where each expires with its partition."""
    if op.get_bind().dialect.name != "postgresql":
        return
    op.create_table(
        "batches_in_one",
        sa.Column("batch_hash", sa.LargeBinary(16), primary_key=True),
        sa.Column("digest", sa.LargeBinary(16), nullable=False),
        sa.Column("expires", sa.Integer, nullable=False),
        sa.Column("num_reports", sa.Integer, nullable=False),
        sa.Column("results", sa.LargeBinary, nullable=False),
    )
    op.execute(_PLAIN)
    op.drop_table("batches")
    op.drop_table("batch_partitions")
    op.execute("DROP SEQUENCE batch_partition_ids")
    op.rename_table("batches_in_one", "batches")
    op.execute("ALTER INDEX batches_in_one_pkey RENAME TO batches_pkey")
    op.create_index("batches_expires", "batches", ["expires"])
