"""Jobs and results are operations on a kind of metric.

Results of version 0.3.0 have files of other names and forms, and are deleted with the jobs that
made them. Schedules and daily series decode their windows again. People, keys, lists, uploads,
schedules, alarms and releases stay.
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0014_operations"
down_revision = "0013_daily_series"
branch_labels = None
depends_on = None

_KEPT = ("source", "candidates", "weights", "options")  # of the specification of a schedule


def upgrade() -> None:
    """Delete results and jobs, rename their columns, and rewrite specifications."""
    for table in ("jobs", "result_files", "result_readers", "results", "schedule_windows"):
        op.execute(f"DELETE FROM {table}")  # noqa: S608 - names of our own
    op.execute("UPDATE daily_series SET asked = '', job_id = NULL, result_id = NULL, problem = ''")
    with op.batch_alter_table("jobs") as jobs:
        jobs.alter_column("kind", new_column_name="operation")
    with op.batch_alter_table("results") as results:
        results.alter_column("kind", type_=sa.String(32), existing_nullable=False)
        results.add_column(sa.Column("operation", sa.String(16), nullable=False))
    connection = op.get_bind()
    schedules = sa.table("schedules", sa.column("id"), sa.column("spec"))
    for identity, text in connection.execute(sa.select(schedules.c.id, schedules.c.spec)).all():
        given = json.loads(text)
        spec = {"operation": "decode", **{name: given[name] for name in _KEPT if name in given}}
        connection.execute(
            sa.update(schedules).where(schedules.c.id == identity).values(spec=json.dumps(spec))
        )
