"""Statements on alarms and their messages (events). A cause has one event in each alarm."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from decoder_service.shell.database import changed, save
from decoder_service.shell.models import AlarmRow, EventRow


class EventState(StrEnum):
    """The states of an alarm's message."""

    WAITING = "waiting"
    SENT = "sent"
    FAILED = "failed"  # after all tries


def load_alarms(db: Session, schedule_ids: Collection[str]) -> list[AlarmRow]:
    """The alarms of schedules, by name."""
    own = select(AlarmRow).where(AlarmRow.schedule_id.in_(schedule_ids))
    return list(db.scalars(own.order_by(AlarmRow.name, AlarmRow.id)))


def delete_alarm(db: Session, schedule_id: str, alarm_id: str) -> bool:
    """Delete an alarm with its events; return False if it does not exist."""
    own = select(AlarmRow.id).where(AlarmRow.id == alarm_id, AlarmRow.schedule_id == schedule_id)
    db.execute(delete(EventRow).where(EventRow.alarm_id.in_(own)))
    return changed(db, delete(AlarmRow).where(AlarmRow.id.in_(own))) == 1


def save_event(db: Session, row: EventRow) -> None:
    """Insert an event, unless the alarm has one of this cause already."""
    known = select(1).where(EventRow.alarm_id == row.alarm_id, EventRow.cause == row.cause)
    if db.execute(known).first() is None:
        save(db, row)


def load_events(db: Session, schedule_id: str, limit: int) -> list[EventRow]:
    """The events of a schedule's alarms, newest first."""
    own = EventRow.alarm.has(AlarmRow.schedule_id == schedule_id)
    newest = select(EventRow).where(own).order_by(EventRow.created.desc(), EventRow.id)
    return list(db.scalars(newest.limit(limit)))


def take_event(db: Session, at: float, until: float) -> EventRow | None:
    """Take the event that is longest due, and hold it until a time; it is due again if its end
    is not stored by then."""
    due = select(EventRow).where(EventRow.state == EventState.WAITING, EventRow.due <= at)
    first = due.order_by(EventRow.due, EventRow.id).limit(1)
    row = db.scalar(first.with_for_update(of=EventRow, skip_locked=True))
    if row is None:
        return None
    same = (EventRow.id == row.id, EventRow.tries == row.tries)
    held = update(EventRow).where(*same).values(tries=row.tries + 1, due=until)
    return row if changed(db, held) == 1 else None


def end_event(db: Session, row: EventRow, state: EventState, at: float, reason: str = "") -> None:
    """Store the outcome of a try. at: when it was sent, or when it is due again."""
    values: dict[str, object] = {"state": state, "reason": reason[:500]}
    values |= {"sent": at} if state is EventState.SENT else {"due": at}
    same = (EventRow.id == row.id, EventRow.state == EventState.WAITING)
    db.execute(update(EventRow).where(*same).values(values))


def count_events(db: Session) -> dict[str, int]:
    """Number of events in each state."""
    statement = select(EventRow.state, func.count()).group_by(EventRow.state)
    return {str(state): int(count) for state, count in db.execute(statement)}
