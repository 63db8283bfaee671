"""Version 0.4.0 has no associations: their tables and counts go, and what metrics said of them."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_IN_AN_ASSOCIATION = """
    SELECT series.id FROM series JOIN associations
        ON series.name = associations.name AND series.params_id = associations.params_id
"""
_OF_ITS_BLOCKS = f"block_id IN (SELECT id FROM blocks WHERE series_id IN ({_IN_AN_ASSOCIATION}))"  # noqa: S608


def upgrade() -> None:
    """Delete the second counts of linked reports; the counts of their metrics stay."""
    op.drop_table("linked_days")
    op.execute(f"DELETE FROM block_counts WHERE {_OF_ITS_BLOCKS}")  # noqa: S608
    for table in ("blocks", "counters", "raw_reports"):
        op.execute(f"DELETE FROM {table} WHERE series_id IN ({_IN_AN_ASSOCIATION})")  # noqa: S608
    op.execute(f"DELETE FROM series WHERE id IN ({_IN_AN_ASSOCIATION})")  # noqa: S608
    op.drop_table("associations")
    _forget_shared_cohorts()
    op.execute("UPDATE state SET version = version + 1")


def _forget_shared_cohorts() -> None:
    """Definitions named the metric whose cohort they shared; no `params_id` depends on it."""
    metrics = sa.table("metrics", *map(sa.column, ("name", "params_id", "definition")))
    connection = op.get_bind()
    for row in connection.execute(sa.select(metrics)).all():
        definition = json.loads(row.definition)
        if definition.pop("cohort_with", None) is not None:
            same = (metrics.c.name == row.name, metrics.c.params_id == row.params_id)
            text = json.dumps(definition, sort_keys=True)
            connection.execute(sa.update(metrics).where(*same).values(definition=text))
