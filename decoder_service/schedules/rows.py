"""Database rows of schedules."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from decoder_service.shell.models import (
    alarm_events,
    alarms,
    schedule_statuses,
    schedule_values,
    schedule_windows,
    schedules,
)


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule: what to decode in every sealed window.

    every: day, week or month.  spec: JSON.  family: over what the level holds, a window or the
    series.  first_day: nothing before it is decoded; None: all that is served.
    """

    id: str
    name: str
    owner: str
    metric: str
    every: str
    spec: str
    enabled: bool
    created: float
    family: str = "window"
    first_day: str | None = None


_COLUMNS = [schedules.c[name] for name in ScheduleRow.__slots__]


def save_schedule(connection: Connection, row: ScheduleRow) -> None:
    """Insert a schedule."""
    connection.execute(insert(schedules).values({n: getattr(row, n) for n in row.__slots__}))


def change_schedule(connection: Connection, row: ScheduleRow) -> None:
    """Store what may be changed of a schedule."""
    names = ("name", "spec", "family", "first_day")
    values = {name: getattr(row, name) for name in names}
    connection.execute(update(schedules).where(schedules.c.id == row.id).values(values))


def load_schedules(connection: Connection, which: ColumnElement[bool]) -> list[ScheduleRow]:
    """The schedules that match a condition, by name."""
    statement = select(*_COLUMNS).where(which).order_by(schedules.c.name, schedules.c.id)
    return [ScheduleRow(*row) for row in connection.execute(statement)]


def enable_schedule(connection: Connection, schedule_id: str, enabled: bool) -> bool:
    """Switch a schedule on or off; return False if it does not exist."""
    statement = update(schedules).where(schedules.c.id == schedule_id).values(enabled=enabled)
    return connection.execute(statement).rowcount == 1


def delete_schedule(connection: Connection, schedule_id: str) -> bool:
    """Delete a schedule with its windows and alarms; results stay. Return False if it does not
    exist."""
    own = select(alarms.c.id).where(alarms.c.schedule_id == schedule_id)
    connection.execute(delete(alarm_events).where(alarm_events.c.alarm_id.in_(own)))
    for table in (alarms, schedule_statuses, schedule_values, schedule_windows):
        connection.execute(delete(table).where(table.c.schedule_id == schedule_id))
    statement = delete(schedules).where(schedules.c.id == schedule_id)
    return connection.execute(statement).rowcount == 1
