"""Database rows of schedules' states, as a process last found them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, insert, select, update

from decoder_service.schedules.status_models import schedule_statuses as table


@dataclass(frozen=True, slots=True)
class StatusRow:
    """A schedule's stored state. since: when it began. checked: when it was last confirmed."""

    schedule_id: str
    state: str
    reason: str
    since: float
    checked: float


_COLUMNS = [table.c[name] for name in StatusRow.__slots__]


def load_statuses(connection: Connection) -> dict[str, StatusRow]:
    """The stored states of all schedules that were ever checked, by id of the schedule."""
    return {row[0]: StatusRow(*row) for row in connection.execute(select(*_COLUMNS))}


def load_status(connection: Connection, schedule_id: str) -> StatusRow | None:
    """The stored state of a schedule; None where no process has checked it yet."""
    statement = select(*_COLUMNS).where(table.c.schedule_id == schedule_id)
    row = connection.execute(statement).first()
    return None if row is None else StatusRow(*row)


def save_status(
    connection: Connection, schedule_id: str, state: str, reason: str, at: float
) -> None:
    """Store what a check found at a time. While the state is the same, so is `since`."""
    before = load_status(connection, schedule_id)
    if before is None:
        values = {"schedule_id": schedule_id, "state": state, "reason": reason}
        connection.execute(insert(table).values(**values, since=at, checked=at))
        return
    since = before.since if before.state == state else at
    own = update(table).where(table.c.schedule_id == schedule_id)
    connection.execute(own.values(state=state, reason=reason, since=since, checked=at))
