"""The database table of schedules' states, beside those of `models`."""

from __future__ import annotations

from sqlalchemy import Column, Double, ForeignKey, String, Table, Text

from decoder_service.shell.models import metadata

# The state of a schedule when some process last checked it; `paused` is in `schedules.enabled`.
schedule_statuses = Table(
    "schedule_statuses",
    metadata,
    Column("schedule_id", String(16), ForeignKey("schedules.id"), primary_key=True),
    Column("state", String(16), nullable=False),  # ready, waiting, blocked
    Column("reason", Text, nullable=False),
    Column("since", Double, nullable=False),
    Column("checked", Double, nullable=False),
)
