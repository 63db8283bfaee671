"""Lists of weights, beside those of candidates."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008_weights"
down_revision = "0007_releases"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; the lists that are there hold candidates."""
    kind = sa.Column("kind", sa.String(length=16), nullable=False, server_default="candidates")
    op.add_column("lists", kind)


def downgrade() -> None:
    """Drop it, and with it the lists that hold others, which would be taken for values."""
    connection = op.get_bind()
    lists, versions, contents = (
        sa.table("lists", sa.column("id"), sa.column("kind")),
        sa.table("list_versions", sa.column("list_id"), sa.column("sha256")),
        sa.table("list_contents", sa.column("sha256")),
    )
    gone = sa.select(lists.c.id).where(lists.c.kind != "candidates")
    connection.execute(sa.delete(versions).where(versions.c.list_id.in_(gone)))
    connection.execute(sa.delete(lists).where(lists.c.kind != "candidates"))
    kept = sa.select(versions.c.sha256)
    connection.execute(sa.delete(contents).where(contents.c.sha256.not_in(kept)))
    with op.batch_alter_table("lists") as altered:
        altered.drop_column("kind")
