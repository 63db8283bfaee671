"""Statements on series, and on how far the days of metrics are closed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, insert, select, update

from collector.store.models import frontiers, series, state

_NAMES_AT_ONCE = 500  # SQLite: 999 parameters a statement in its older versions


@dataclass(frozen=True, slots=True)
class SeriesRow:
    """A series: reports that may be added up. `metric`: the declared metric that the name
    belongs to."""

    id: int
    name: str
    params_id: str
    metric: str


def state_version(connection: Connection) -> int:
    """A number that grows with every change of metrics, keys or closed days; -1 in an empty
    database."""
    value = connection.execute(select(state.c.version)).scalar()
    return -1 if value is None else value


def touch_state(connection: Connection) -> None:
    """Mark that the metrics have changed, so that every worker reads them again."""
    connection.execute(update(state).values(version=state.c.version + 1))


def load_series(connection: Connection) -> list[SeriesRow]:
    """Load all series."""
    columns = [series.c[name] for name in SeriesRow.__slots__]
    return [SeriesRow(*row) for row in connection.execute(select(*columns).order_by(series.c.id))]


def add_series(connection: Connection, name: str, params_id: str, metric: str) -> None:
    """Insert a series unless it is there."""
    same = (series.c.name == name, series.c.params_id == params_id)
    if connection.execute(select(series.c.id).where(*same)).first() is None:
        values = {"name": name, "params_id": params_id, "metric": metric}
        connection.execute(insert(series).values(values))


def load_frontiers(connection: Connection) -> dict[str, int]:
    """For each metric, the last day that is closed for good."""
    statement = select(frontiers.c.metric, frontiers.c.closed_through)
    return {row[0]: row[1] for row in connection.execute(statement)}


def start_frontier(connection: Connection, metric: str, closed_through: int) -> None:
    """Record from which day on a new metric's days are open."""
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
