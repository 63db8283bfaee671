"""Windows of schedules, and alarms."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002_schedules"
down_revision = "0001_decoder"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what schedules decoded, and what alarms told."""
    family = sa.Column("family", sa.String(length=16), nullable=False, server_default="window")
    op.add_column("schedules", family)
    op.add_column("schedules", sa.Column("first_day", sa.String(length=10)))
    _schedules()
    _alarms()


def downgrade() -> None:
    """Drop them, with what was told."""
    for table in ("alarm_events", "alarms", "readings", "schedule_values", "schedule_windows"):
        op.drop_table(table)
    with op.batch_alter_table("schedules") as altered:
        altered.drop_column("family")
        altered.drop_column("first_day")


def _schedules() -> None:
    op.create_table(
        "schedule_windows",
        sa.Column("schedule_id", sa.String(length=16), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("params_id", sa.String(length=64), nullable=False),
        sa.Column("first_day", sa.String(length=10), nullable=False),
        sa.Column("last_day", sa.String(length=10), nullable=False),
        sa.Column("num_reports", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.String(length=16)),
        sa.Column("result_id", sa.String(length=16)),
        sa.ForeignKeyConstraint(["schedule_id"], ["schedules.id"]),
        sa.PrimaryKeyConstraint("schedule_id", "digest", "params_id", "first_day"),
    )
    op.create_table(
        "schedule_values",
        sa.Column("schedule_id", sa.String(length=16), nullable=False),
        sa.Column("params_id", sa.String(length=64), nullable=False),
        sa.Column("value_sha256", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["schedule_id"], ["schedules.id"]),
        sa.PrimaryKeyConstraint("schedule_id", "params_id", "value_sha256"),
    )
    op.create_table(
        "readings",
        sa.Column("day", sa.String(length=10), nullable=False),
        sa.Column("accepted", sa.Double(), nullable=False),
        sa.Column("refused", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("day"),
    )


def _alarms() -> None:
    op.create_table(
        "alarms",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("schedule_id", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("channel", sa.String(length=16), nullable=False),
        sa.Column("target", sa.String(length=1000), nullable=False),
        sa.Column("secret", sa.String(length=64), nullable=False),
        sa.Column("rules", sa.Text(), nullable=False),
        sa.Column("show_values", sa.Boolean(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["schedule_id"], ["schedules.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_alarms_schedule_id", "alarms", ["schedule_id"])
    op.create_table(
        "alarm_events",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("alarm_id", sa.String(length=16), nullable=False),
        sa.Column("cause", sa.String(length=200), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("due", sa.Double(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("sent", sa.Double()),
        sa.ForeignKeyConstraint(["alarm_id"], ["alarms.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("alarm_id", "cause"),
    )
    op.create_index("alarm_events_due", "alarm_events", ["state", "due"])
