"""The database table of daily series, beside those of `shell.models`."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, String, Table, Text

from decoder_service.shell.models import metadata

# One row a metric, made when its first series is queued or a person chooses otherwise.
daily_series = Table(
    "daily_series",
    metadata,
    Column("metric", String(256), primary_key=True),
    Column("enabled", Boolean, nullable=False),
    Column("list_id", String(16)),  # of the values to look for; NULL: the metric's own
    Column("asked", String(64), nullable=False),  # digest of what was queued last, or ""
    Column("job_id", String(16)),  # that waits or runs
    Column("result_id", String(16)),  # the newest series
    Column("problem", Text, nullable=False),  # why the last job gave none, or ""
)
