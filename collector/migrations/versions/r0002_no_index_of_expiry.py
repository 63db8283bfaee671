"""No index of when batches expire: they are deleted once a day, and inserted all day."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Drop the index; a scan a day costs less than a second tree to write."""
    op.drop_index("batches_expires", "batches")


def downgrade() -> None:
    """Make it again."""
    op.create_index("batches_expires", "batches", ["expires"])
