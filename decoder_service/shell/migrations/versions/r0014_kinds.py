"""The revision in which jobs and results become operations on a metric kind.

Daily series become default schedules. Results from version 0.3.0 have different file names and
formats, and are deleted with the jobs that made them. Schedules and daily series decode their
windows again. People, keys, lists, uploads, schedules, alarms and releases are kept. An alarm keeps
its address as the name of its target, which the setting `alarm_urls` may define. The rule for
rejected reports is deleted, with its unsent messages: Prometheus has that alert."""

import json
from hashlib import sha256

import sqlalchemy as sa
from alembic import op

revision = "0014_kinds"
down_revision = "0013_daily_series"
branch_labels = None
depends_on = None

_KEPT = ("candidates", "weights", "options")  # Members of a schedule's specification
_SERVICE = "0" * 16  # The person who owns the service's own schedules
_DROPPED = {  # Columns of tables that foreign keys reference, which SQLite must not recreate
    "aggregates": ("num_cohorts", "own_values"),
    "schedules": ("family",),
    "alarms": ("channel", "secret"),
}


def upgrade() -> None:
    """Delete results and jobs, change columns, rewrite specifications, and move daily series."""
    for table in ("jobs", "result_files", "result_readers", "results", "schedule_windows"):
        op.execute(f"DELETE FROM {table}")  # noqa: S608 - names in this file
    for name, columns in _DROPPED.items():
        for column in columns:
            op.drop_column(name, column)
    op.drop_index("jobs_live", "jobs")
    with op.batch_alter_table("jobs") as jobs:
        jobs.alter_column("kind", new_column_name="operation")
        for column in ("checks", "check_key", "priority"):
            jobs.drop_column(column)
    op.add_column("schedules", sa.Column("problem", sa.Text, nullable=False, server_default=""))
    live = sa.text("state IN ('queued', 'running', 'cancelling')")
    op.create_index("jobs_live", "jobs", ["owner", "spec_digest"], unique=True,
                    sqlite_where=live, postgresql_where=live)  # fmt: skip
    with op.batch_alter_table("results") as results:
        results.alter_column("kind", type_=sa.String(32), existing_nullable=False)
        results.add_column(sa.Column("operation", sa.String(16), nullable=False))
    _rewrite(op.get_bind())


def _rewrite(connection: sa.Connection) -> None:
    names = ("id", "name", "owner", "metric", "every", "spec", "enabled", "created")
    schedules = sa.table("schedules", *map(sa.column, names))
    rows = connection.execute(sa.select(schedules.c.id, schedules.c.metric, schedules.c.spec)).all()
    for identity, metric, text in rows:
        old = json.loads(text)
        spec = {"operation": "decode", "source": {"collector": {"metric": metric}}}
        spec |= {name: old[name] for name in _KEPT if name in old}
        connection.execute(
            sa.update(schedules).where(schedules.c.id == identity).values(spec=json.dumps(spec))
        )
    daily = sa.table("daily_series", *map(sa.column, ("metric", "enabled", "list_id")))
    series = connection.execute(sa.select(daily.c.metric, daily.c.enabled, daily.c.list_id)).all()
    people = sa.table("people", *map(sa.column, ("id", "name", "created")))
    query = sa.select(people.c.id).where(people.c.id == _SERVICE)
    if series and connection.execute(query).first() is None:
        person = {"id": _SERVICE, "name": "decoder-service (itself)", "created": 0.0}
        connection.execute(sa.insert(people).values(person))
    for metric, enabled, listed in series:
        spec = {"operation": "series", "source": {"collector": {"metric": metric}}}
        spec |= {} if listed is None else {"candidates": {"list": listed}}
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
            )
        )
    op.drop_table("daily_series")
    op.drop_table("readings")
    op.drop_table("schedule_statuses")
    op.execute("DELETE FROM alarm_events WHERE cause LIKE 'refused:%' AND state = 'waiting'")
    alarms = sa.table("alarms", *map(sa.column, ("id", "rules")))
    for identity, text in connection.execute(sa.select(alarms)).all():
        rules = {name: value for name, value in json.loads(text).items() if name != "refused"}
        connection.execute(
            sa.update(alarms).where(alarms.c.id == identity).values(rules=json.dumps(rules))
        )
