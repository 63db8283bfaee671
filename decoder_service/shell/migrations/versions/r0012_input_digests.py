"""The digest of a result's inputs gets the name that the code has for it."""

from __future__ import annotations

from alembic import op

revision = "0012_input_digests"
down_revision = "0011_schedule_statuses"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Rename the column and its index."""
    _rename("question", "input_digest")


def downgrade() -> None:
    """Give the old names back."""
    _rename("input_digest", "question")


def _rename(old: str, new: str) -> None:
    op.drop_index(f"ix_results_{old}", "results")
    op.execute(f"ALTER TABLE results RENAME COLUMN {old} TO {new}")
    op.create_index(f"ix_results_{new}", "results", [new])
