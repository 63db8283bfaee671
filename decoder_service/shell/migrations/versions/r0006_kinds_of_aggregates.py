"""The kind of metric that an aggregate is of."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0006_aggregate_kinds"
down_revision = "0005_identities"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, and read it from the aggregates that are there."""
    op.add_column("aggregates", sa.Column("kind", sa.String(length=32)))
    connection = op.get_bind()
    table = sa.table("aggregates", sa.column("sha256"), sa.column("content"), sa.column("kind"))
    for sha in connection.execute(sa.select(table.c.sha256)).scalars().all():
        own = table.c.sha256 == sha
        content = connection.execute(sa.select(table.c.content).where(own)).scalar_one()
        kind = (json.loads(bytes(content)).get("definition") or {}).get("kind")
        if isinstance(kind, str):
            connection.execute(sa.update(table).where(own).values(kind=kind[:32]))


def downgrade() -> None:
    """Drop it."""
    with op.batch_alter_table("aggregates") as altered:
        altered.drop_column("kind")
