"""An alarm has a target that an operator set up; channels and secrets of webhooks are gone.

An alarm of version 0.3.0 keeps the address that it had as the name of its target: a setting
`alarm_urls` with that name sends its messages.
"""

from __future__ import annotations

from alembic import op

revision = "0015_alarm_targets"
down_revision = "0014_operations"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Drop the columns."""
    with op.batch_alter_table("alarms") as alarms:
        alarms.drop_column("channel")
        alarms.drop_column("secret")
