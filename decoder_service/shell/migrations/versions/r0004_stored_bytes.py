"""How many bytes each result takes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004_stored_bytes"
down_revision = "0003_released_by"
branch_labels = None
depends_on = None

_COUNTED = """
UPDATE results SET stored = (
  SELECT coalesce(sum(length(content)), 0) FROM result_files WHERE result_id = results.id
)
"""


def upgrade() -> None:
    """Add the column, and count the files that are there."""
    stored = sa.Column("stored", sa.BigInteger(), nullable=False, server_default="0")
    op.add_column("results", stored)
    op.execute(_COUNTED)


def downgrade() -> None:
    """Drop it."""
    with op.batch_alter_table("results") as altered:
        altered.drop_column("stored")
