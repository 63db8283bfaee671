"""Daily series are default schedules; a list that a person chose, and off, stay as they were."""

from __future__ import annotations

import json
from hashlib import sha256

import sqlalchemy as sa
from alembic import op

revision = "0016_default_schedules"
down_revision = "0015_alarm_targets"
branch_labels = None
depends_on = None

_SERVICE = "0" * 16  # the person who owns what the service starts


def upgrade() -> None:
    """Make a schedule of each daily series, and drop their table."""
    connection = op.get_bind()
    daily = sa.table("daily_series", *map(sa.column, ("metric", "enabled", "list_id")))
    rows = connection.execute(sa.select(daily.c.metric, daily.c.enabled, daily.c.list_id)).all()
    people = sa.table("people", *map(sa.column, ("id", "name", "created")))
    known = sa.select(people.c.id).where(people.c.id == _SERVICE)
    if rows and connection.execute(known).first() is None:
        person = {"id": _SERVICE, "name": "decoder-service (itself)", "created": 0.0}
        connection.execute(sa.insert(people).values(person))
    names = ("id", "name", "owner", "metric", "every", "spec", "enabled", "created", "family")
    schedules = sa.table("schedules", *map(sa.column, names))
    for metric, enabled, listed in rows:
        spec = {"operation": "series", "source": {"collector": {"metric": metric}}}
        if listed is not None:
            spec["candidates"] = {"list": listed}
        connection.execute(
            sa.insert(schedules).values(
                id=sha256(metric.encode()).hexdigest()[:16],
                name=f"{metric[:193]} by day",
                owner=_SERVICE,
                metric=metric,
                every="day",
                spec=json.dumps(spec),
                enabled=bool(enabled),
                created=0.0,
                family="window",
            )
        )
    op.drop_table("daily_series")
