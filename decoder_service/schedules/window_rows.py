"""Database rows of schedules' windows; each is stored once for a specification."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, select, update

from decoder_service.shell.models import readings, schedule_values, schedule_windows

_AT_ONCE = 500


class WindowState(StrEnum):
    """The states of a window. `waiting`: its job is not over."""

    EMPTY = "empty"  # no reports
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class WindowRow:
    """A window of a schedule. digest: of the options and the content of the list.

    first_day, last_day: what was asked for, longer than a period where days were merged.
    """

    schedule_id: str
    digest: str
    params_id: str
    first_day: str
    last_day: str
    num_reports: int
    state: str
    tries: int = 0
    job_id: str | None = None
    result_id: str | None = None

    def where(self) -> ColumnElement[bool]:
        """The SQL condition that selects this row."""
        names = ("schedule_id", "digest", "params_id", "first_day")
        return and_(*(schedule_windows.c[name] == getattr(self, name) for name in names))


_COLUMNS = [schedule_windows.c[name] for name in WindowRow.__slots__]


def save_window(connection: Connection, row: WindowRow) -> None:
    """Insert a window. Raises ConflictError where another process was first."""
    values = {name: getattr(row, name) for name in WindowRow.__slots__}
    connection.execute(insert(schedule_windows).values(values))


def load_windows(connection: Connection, schedule_id: str) -> list[WindowRow]:
    """Load all windows of a schedule, oldest first."""
    columns = schedule_windows.c
    statement = select(*_COLUMNS).where(columns.schedule_id == schedule_id)
    ordered = statement.order_by(columns.digest, columns.params_id, columns.first_day)
    return [WindowRow(*row) for row in connection.execute(ordered)]


def delete_window(connection: Connection, row: WindowRow) -> bool:
    """Delete a window that is as it was read; False where another process changed it."""
    same = row.where() & (schedule_windows.c.last_day == row.last_day)
    return connection.execute(delete(schedule_windows).where(same)).rowcount == 1


def end_window(
    connection: Connection, row: WindowRow, state: WindowState, result_id: str | None = None
) -> bool:
    """End a window that waits; False where another process has done so."""
    waits = row.where() & (schedule_windows.c.state == WindowState.WAITING)
    values = {"state": state, "result_id": result_id}
    return connection.execute(update(schedule_windows).where(waits).values(values)).rowcount == 1


def try_again(connection: Connection, row: WindowRow, job_id: str) -> bool:
    """Give a window that waits another job; False where another process has done so."""
    waits = row.where() & (schedule_windows.c.tries == row.tries)
    values = {"tries": row.tries + 1, "job_id": job_id}
    return connection.execute(update(schedule_windows).where(waits).values(values)).rowcount == 1


def add_values(
    connection: Connection, schedule_id: str, params_id: str, values: Collection[str]
) -> list[str]:
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
        found = connection.execute(select(columns.value_sha256).where(own, part))
        seen |= {str(row[0]) for row in found}
    new = [name for name in names if name not in seen]
    if new:
        common = {"schedule_id": schedule_id, "params_id": params_id}
        rows = [common | {"value_sha256": name} for name in new]
        connection.execute(insert(schedule_values), rows)
    return [digests[name] for name in new]


def first_reading(
    connection: Connection, day: str, accepted: float, refused: float
) -> tuple[float, float]:
    """The counters that were stored at the first check of a day; the given ones, if this is the
    first."""
    statement = select(readings.c.accepted, readings.c.refused).where(readings.c.day == day)
    found = connection.execute(statement).first()
    if found is not None:
        return float(found[0]), float(found[1])
    values = {"day": day, "accepted": accepted, "refused": refused}
    connection.execute(insert(readings).values(values))
    return accepted, refused
