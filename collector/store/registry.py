"""Rows about metrics: their versions, their series, and how far their days are closed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, insert, select, update

from collector.store.models import frontiers, metrics, series, state

_NAMES_AT_ONCE = 500  # SQLite: 999 parameters a statement in its older versions


@dataclass(frozen=True, slots=True)
class VersionRow:
    """One version of a metric. `definition`: JSON text.  `position`: grows within a name."""

    name: str
    params_id: str
    position: int
    definition: str
    retired: bool


@dataclass(frozen=True, slots=True)
class SeriesRow:
    """What may be added up. `metric`: the declared metric that the name belongs to."""

    id: int
    name: str
    params_id: str
    metric: str


def state_version(connection: Connection) -> int:
    """Grows with every change of metrics, keys or closed days; -1 in an empty database."""
    value = connection.execute(select(state.c.version)).scalar()
    return -1 if value is None else value


def touch_state(connection: Connection) -> None:
    """Tell every worker that what it remembers may be old."""
    connection.execute(update(state).values(version=state.c.version + 1))


def load_versions(connection: Connection) -> list[VersionRow]:
    """All versions of all metrics, oldest first within a name."""
    columns = [metrics.c[name] for name in VersionRow.__slots__]
    statement = select(*columns).order_by(metrics.c.name, metrics.c.position)
    return [VersionRow(*row) for row in connection.execute(statement)]


def save_version(connection: Connection, row: VersionRow) -> None:
    """Insert a version, or replace its definition, position and state."""
    values = {name: getattr(row, name) for name in VersionRow.__slots__}
    same = (metrics.c.name == row.name, metrics.c.params_id == row.params_id)
    if not connection.execute(update(metrics).where(*same).values(values)).rowcount:
        connection.execute(insert(metrics).values(values))


def load_series(connection: Connection) -> list[SeriesRow]:
    """All series."""
    columns = [series.c[name] for name in SeriesRow.__slots__]
    return [SeriesRow(*row) for row in connection.execute(select(*columns).order_by(series.c.id))]


def add_series(connection: Connection, name: str, params_id: str, metric: str) -> None:
    """Insert a series unless it is there."""
    same = (series.c.name == name, series.c.params_id == params_id)
    if connection.execute(select(series.c.id).where(*same)).first() is None:
        values = {"name": name, "params_id": params_id, "metric": metric}
        connection.execute(insert(series).values(values))


def load_frontiers(connection: Connection) -> dict[str, int]:
    """By metric: the last day that is closed for good."""
    statement = select(frontiers.c.metric, frontiers.c.closed_through)
    return {row[0]: row[1] for row in connection.execute(statement)}


def start_frontier(connection: Connection, metric: str, closed_through: int) -> None:
    """Say from when days of a new metric are open."""
    connection.execute(insert(frontiers).values(metric=metric, closed_through=closed_through))


def advance_frontiers(connection: Connection, closed_through: Mapping[str, int]) -> None:
    """Close the days of each metric up to the one given. A frontier never goes back."""
    names_of: dict[int, list[str]] = {}
    for name, day in closed_through.items():
        names_of.setdefault(day, []).append(name)
    for day, names in names_of.items():  # who reports waits for this: a statement a day
        for start in range(0, len(names), _NAMES_AT_ONCE):
            some = frontiers.c.metric.in_(names[start : start + _NAMES_AT_ONCE])
            behind = frontiers.c.closed_through < day
            connection.execute(update(frontiers).where(some, behind).values(closed_through=day))
