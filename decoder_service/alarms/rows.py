"""Database rows of alarms and of their messages (events). A cause has one event in each alarm."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection, delete, func, insert, select, update

from decoder_service.shell.models import alarm_events, alarms


class EventState(StrEnum):
    """The states of an alarm's message."""

    WAITING = "waiting"
    SENT = "sent"
    FAILED = "failed"  # after all tries


@dataclass(frozen=True, slots=True)
class AlarmRow:
    """An alarm of a schedule. target: a name of the setting `alarm_urls`.  rules: JSON."""

    id: str
    schedule_id: str
    name: str
    target: str
    rules: str
    show_values: bool
    created: float


@dataclass(frozen=True, slots=True)
class EventRow:
    """The message of an alarm about one cause. body: JSON. due: time of the next try. tries:
    number that were begun."""

    id: str
    alarm_id: str
    cause: str
    body: str
    state: str
    tries: int
    due: float
    reason: str
    created: float
    sent: float | None = None


_ALARM = [alarms.c[name] for name in AlarmRow.__slots__]
_EVENT = [alarm_events.c[name] for name in EventRow.__slots__]


def save_alarm(connection: Connection, row: AlarmRow) -> None:
    """Insert an alarm."""
    connection.execute(insert(alarms).values({n: getattr(row, n) for n in AlarmRow.__slots__}))


def load_alarms(connection: Connection, schedule_ids: Collection[str]) -> list[AlarmRow]:
    """The alarms of schedules, by name."""
    statement = select(*_ALARM).where(alarms.c.schedule_id.in_(schedule_ids))
    ordered = statement.order_by(alarms.c.name, alarms.c.id)
    return [AlarmRow(*row) for row in connection.execute(ordered)]


def delete_alarm(connection: Connection, schedule_id: str, alarm_id: str) -> bool:
    """Delete an alarm with its events; return False if it does not exist."""
    own = (alarms.c.id == alarm_id) & (alarms.c.schedule_id == schedule_id)
    if connection.execute(select(1).where(own)).first() is None:
        return False
    connection.execute(delete(alarm_events).where(alarm_events.c.alarm_id == alarm_id))
    return connection.execute(delete(alarms).where(own)).rowcount == 1


def save_event(connection: Connection, row: EventRow) -> bool:
    """Insert an event; return False if the alarm has one of this cause already."""
    known = select(1).where(
        alarm_events.c.alarm_id == row.alarm_id, alarm_events.c.cause == row.cause
    )
    if connection.execute(known).first() is not None:
        return False
    connection.execute(
        insert(alarm_events).values({name: getattr(row, name) for name in EventRow.__slots__})
    )
    return True


def load_events(connection: Connection, alarm_ids: Collection[str], limit: int) -> list[EventRow]:
    """The events of some alarms, newest first."""
    statement = select(*_EVENT).where(alarm_events.c.alarm_id.in_(alarm_ids))
    ordered = statement.order_by(alarm_events.c.created.desc(), alarm_events.c.id).limit(limit)
    return [EventRow(*row) for row in connection.execute(ordered)]


def take_event(connection: Connection, at: float, until: float) -> tuple[EventRow, AlarmRow] | None:
    """Take the event that is longest due, and hold it until a time; it is due again if its end
    is not stored by then."""
    due = (alarm_events.c.state == EventState.WAITING, alarm_events.c.due <= at)
    ordered = select(*_EVENT).where(*due).order_by(alarm_events.c.due, alarm_events.c.id)
    found = connection.execute(ordered.limit(1).with_for_update(skip_locked=True)).first()
    if found is None:
        return None
    row = EventRow(*found)
    same = (alarm_events.c.id == row.id, alarm_events.c.tries == row.tries)
    held = {"tries": row.tries + 1, "due": until}
    if connection.execute(update(alarm_events).where(*same).values(held)).rowcount != 1:
        return None
    alarm = connection.execute(select(*_ALARM).where(alarms.c.id == row.alarm_id)).one()
    return row, AlarmRow(*alarm)


def end_event(
    connection: Connection, row: EventRow, state: EventState, at: float, reason: str = ""
) -> None:
    """Store the outcome of a try. at: when it was sent, or when it is due again."""
    values: dict[str, object] = {"state": state, "reason": reason[:500]}
    values |= {"sent": at} if state is EventState.SENT else {"due": at}
    same = (alarm_events.c.id == row.id, alarm_events.c.state == EventState.WAITING)
    connection.execute(update(alarm_events).where(*same).values(values))


def count_events(connection: Connection) -> dict[str, int]:
    """Number of events in each state."""
    statement = select(alarm_events.c.state, func.count()).group_by(alarm_events.c.state)
    return {str(state): int(count) for state, count in connection.execute(statement)}
