"""The SQL statements for metrics, series, closed days, keys and the audit log."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, func, insert, null, or_, select, true, update

from collector.store.models import audit, frontiers, keys, metrics, series, state
from rappor_core.metrics.metric import Metric

_NAMES_AT_ONCE = 500  # older versions of SQLite allow 999 parameters per statement


def state_version(connection: Connection) -> int:
    """Return a number that grows with every change of metrics, keys or closed days.

    It is -1 in an empty database.
    """
    value = connection.execute(select(state.c.version)).scalar()
    return -1 if value is None else value


def touch_state(connection: Connection) -> None:
    """Record that the metrics have changed, so that every worker reads them again."""
    connection.execute(update(state).values(version=state.c.version + 1))


def read_last_day(connection: Connection) -> tuple[int | None, datetime | None]:
    """Return the last day that a collector has seen, and PostgreSQL's time (None on SQLite)."""
    clock = func.now() if connection.dialect.name == "postgresql" else null()
    row = connection.execute(select(state.c.last_day, clock)).one()
    return row[0], row[1]


def save_last_day(connection: Connection, day: int | None, *, forward: bool = False) -> None:
    """Record the last day that a collector has seen; None if unknown.

    `forward` leaves a later recorded day unchanged.
    """
    earlier = or_(state.c.last_day.is_(None), state.c.last_day < day) if forward else true()
    connection.execute(update(state).where(earlier).values(last_day=day))


def load_series(connection: Connection) -> dict[tuple[str, str], int]:
    """Return the id of each series, by name and params_id."""
    statement = select(series.c.name, series.c.params_id, series.c.id)
    return {(row[0], row[1]): row[2] for row in connection.execute(statement)}


def add_series(connection: Connection, name: str, params_id: str, metric: str) -> None:
    """Insert a series, unless it exists."""
    same = (series.c.name == name, series.c.params_id == params_id)
    if connection.execute(select(series.c.id).where(*same)).first() is None:
        values = {"name": name, "params_id": params_id, "metric": metric}
        connection.execute(insert(series).values(values))


def load_frontiers(connection: Connection) -> dict[str, int]:
    """Return the last permanently closed day, by metric."""
    statement = select(frontiers.c.metric, frontiers.c.closed_through)
    return {row[0]: row[1] for row in connection.execute(statement)}


def start_frontier(connection: Connection, metric: str, closed_through: int) -> None:
    """Record the last closed day for a new metric; later days are open."""
    connection.execute(insert(frontiers).values(metric=metric, closed_through=closed_through))


def advance_frontiers(connection: Connection, closed_through: Mapping[str, int]) -> None:
    """Close each metric's days up to its given day, unless more days are already closed."""
    names_of: dict[int, list[str]] = {}
    for name, day in closed_through.items():
        names_of.setdefault(day, []).append(name)
    for day, names in names_of.items():  # reports wait for this: one statement per day
        for start in range(0, len(names), _NAMES_AT_ONCE):
            some = frontiers.c.metric.in_(names[start : start + _NAMES_AT_ONCE])
            behind = frontiers.c.closed_through < day
            connection.execute(update(frontiers).where(some, behind).values(closed_through=day))


@dataclass(frozen=True, slots=True)
class MetricVersionRow:
    """A row of one version of a metric."""

    name: str
    params_id: str
    position: int  # grows within a name
    definition: str  # `Metric.to_dict` as JSON
    retired: bool
    paused: bool = False


def current_version(metric: Metric, versions: Sequence[MetricVersionRow]) -> MetricVersionRow:
    """Return the row to save so that `metric` becomes the current version of its name."""
    top = versions[-1].position if versions else 0
    is_top = bool(versions) and versions[-1].params_id == metric.params_id
    return MetricVersionRow(
        name=metric.name,
        params_id=metric.params_id,
        position=top if is_top else top + 1,
        definition=json.dumps(metric.to_dict(), sort_keys=True),
        retired=False,
        paused=any(row.paused for row in versions if row.params_id == metric.params_id),
    )


def load_versions(connection: Connection) -> list[MetricVersionRow]:
    """Load all versions of all metrics, oldest first within a name."""
    columns = [metrics.c[name] for name in MetricVersionRow.__slots__]
    rows = connection.execute(select(*columns).order_by(metrics.c.name, metrics.c.position))
    return [MetricVersionRow(*row) for row in rows]


def save_version(connection: Connection, row: MetricVersionRow) -> None:
    """Insert a version, or replace its definition, position and state."""
    values = {name: getattr(row, name) for name in MetricVersionRow.__slots__}
    same = (metrics.c.name == row.name, metrics.c.params_id == row.params_id)
    if not connection.execute(update(metrics).where(*same).values(values)).rowcount:
        connection.execute(insert(metrics).values(values))


@dataclass(frozen=True, slots=True)
class CollectorAuditRow:
    """A row of the audit log."""

    at: str  # UTC, to the second
    actor: str  # a key id, or `command-line`
    act: str
    detail: str  # JSON


def load_keys(connection: Connection) -> Sequence[Row[Any]]:
    """Load the rows of all keys, including revoked keys, oldest first."""
    return connection.execute(select(keys).order_by(keys.c.created, keys.c.key_id)).all()


def save_key(connection: Connection, **values: str | int | bytes) -> None:
    """Insert a key; `values` are its columns."""
    connection.execute(insert(keys).values(values))


def revoke_key(connection: Connection, key_id: str, day: int) -> bool:
    """Revoke a key. Return False if no valid key has this id."""
    live = (keys.c.key_id == key_id, keys.c.revoked.is_(None))
    return connection.execute(update(keys).where(*live).values(revoked=day)).rowcount == 1


def write_audit(connection: Connection, row: CollectorAuditRow) -> None:
    """Append an entry to the audit log."""
    connection.execute(insert(audit).values(asdict(row)))


def read_audit(connection: Connection, limit: int) -> list[CollectorAuditRow]:
    """Return the latest entries, newest first."""
    columns = [audit.c[name] for name in CollectorAuditRow.__slots__]
    rows = connection.execute(select(*columns).order_by(audit.c.id.desc()).limit(limit))
    return [CollectorAuditRow(*row) for row in rows]
