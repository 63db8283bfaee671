"""Statements on schedules, their windows, their states, and the values that they showed."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from hashlib import sha256

from sqlalchemy import ColumnElement, and_, delete, insert, select, update
from sqlalchemy.orm import Session

from decoder_service.shell.database import changed, save
from decoder_service.shell.models import (
    AlarmRow,
    EventRow,
    ScheduleRow,
    StatusRow,
    WindowRow,
    readings,
    schedule_values,
)

_AT_ONCE = 500


class WindowState(StrEnum):
    """The states of a window. `waiting`: its job is not over."""

    EMPTY = "empty"  # no reports
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


def load_schedules(db: Session, which: ColumnElement[bool]) -> list[ScheduleRow]:
    """The schedules that match a condition, by name."""
    by_name = select(ScheduleRow).where(which).order_by(ScheduleRow.name, ScheduleRow.id)
    return list(db.scalars(by_name))


def delete_schedule(db: Session, schedule_id: str) -> None:
    """Delete a schedule with its windows and alarms; results stay."""
    own = select(AlarmRow.id).where(AlarmRow.schedule_id == schedule_id)
    db.execute(delete(EventRow).where(EventRow.alarm_id.in_(own)))
    for table in (AlarmRow, StatusRow, WindowRow):
        db.execute(delete(table).where(table.schedule_id == schedule_id))
    db.execute(delete(schedule_values).where(schedule_values.c.schedule_id == schedule_id))
    db.execute(delete(ScheduleRow).where(ScheduleRow.id == schedule_id))


def load_windows(db: Session, schedule_id: str) -> list[WindowRow]:
    """Load all windows of a schedule, oldest first."""
    own = select(WindowRow).where(WindowRow.schedule_id == schedule_id)
    return list(
        db.scalars(own.order_by(WindowRow.digest, WindowRow.params_id, WindowRow.first_day))
    )


def _is_window(row: WindowRow) -> ColumnElement[bool]:
    return and_(
        WindowRow.schedule_id == row.schedule_id,
        WindowRow.digest == row.digest,
        WindowRow.params_id == row.params_id,
        WindowRow.first_day == row.first_day,
    )


def delete_window(db: Session, row: WindowRow) -> bool:
    """Delete a window that is as it was read; False where another process changed it."""
    same = _is_window(row) & (WindowRow.last_day == row.last_day)
    return changed(db, delete(WindowRow).where(same)) == 1


def end_window(
    db: Session, row: WindowRow, state: WindowState, result_id: str | None = None
) -> bool:
    """End a window that waits; False where another process has done so."""
    waits = _is_window(row) & (WindowRow.state == WindowState.WAITING)
    ended = update(WindowRow).where(waits).values(state=state, result_id=result_id)
    return changed(db, ended) == 1


def try_again(db: Session, row: WindowRow, job_id: str) -> bool:
    """Give a window that waits another job; False where another process has done so."""
    waits = _is_window(row) & (WindowRow.tries == row.tries)
    again = update(WindowRow).where(waits).values(tries=row.tries + 1, job_id=job_id)
    return changed(db, again) == 1


def add_values(db: Session, schedule_id: str, params_id: str, values: Collection[str]) -> list[str]:
    """Store values as seen; return those that were not seen before, in their order."""
    digests = {
        sha256(value.encode("utf-8", "surrogatepass")).hexdigest(): value for value in values
    }
    columns = schedule_values.c
    own = (columns.schedule_id == schedule_id) & (columns.params_id == params_id)
    seen: set[str] = set()
    names = list(digests)
    for start in range(0, len(names), _AT_ONCE):
        part = columns.value_sha256.in_(names[start : start + _AT_ONCE])
        seen |= set(db.scalars(select(columns.value_sha256).where(own, part)))
    new = [name for name in names if name not in seen]
    if new:
        common = {"schedule_id": schedule_id, "params_id": params_id}
        rows = [common | {"value_sha256": name} for name in new]
        db.execute(insert(schedule_values), rows)
    return [digests[name] for name in new]


def first_reading(db: Session, day: str, accepted: float, refused: float) -> tuple[float, float]:
    """The counters that were stored at the first check of a day; the given ones, if this is the
    first."""
    statement = select(readings.c.accepted, readings.c.refused).where(readings.c.day == day)
    found = db.execute(statement).first()
    if found is not None:
        return float(found[0]), float(found[1])
    db.execute(insert(readings).values(day=day, accepted=accepted, refused=refused))
    return accepted, refused


def save_status(db: Session, schedule_id: str, state: str, reason: str, at: float) -> None:
    """Store what a check found at a time. While the state is the same, so is `since`."""
    before = db.get(StatusRow, schedule_id)
    if before is None:
        save(db, StatusRow(schedule_id=schedule_id, state=state, reason=reason, since=at,
                           checked=at))  # fmt: skip
        return
    since = before.since if before.state == state else at
    own = update(StatusRow).where(StatusRow.schedule_id == schedule_id)
    db.execute(own.values(state=state, reason=reason, since=since, checked=at))
