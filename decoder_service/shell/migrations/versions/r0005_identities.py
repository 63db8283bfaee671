"""People who sign in through a provider of OpenID Connect."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005_identities"
down_revision = "0004_stored_bytes"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add them."""
    op.create_table(
        "identities",
        sa.Column("issuer", sa.String(length=500), nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("person_id", sa.String(length=16), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("seen", sa.Double(), nullable=False),
        sa.Column("revoked", sa.Double()),
        sa.ForeignKeyConstraint(["person_id"], ["people.id"]),
        sa.PrimaryKeyConstraint("issuer", "subject"),
        sa.UniqueConstraint("person_id"),
    )


def downgrade() -> None:
    """Drop them, and their sessions."""
    op.execute("DELETE FROM sessions WHERE key_id IS NULL")
    op.drop_table("identities")
