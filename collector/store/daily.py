"""Numbers of reports of each open day."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from collector.store.models import counters


def reports_by_day(connection: Connection) -> dict[tuple[int, int], int]:
    """Number of reports of each (series, day) that is not folded yet."""
    columns = (counters.c.series_id, counters.c.day)
    statement = select(*columns, func.sum(counters.c.num_reports)).group_by(*columns)
    return {(series_id, day): int(count) for series_id, day, count in connection.execute(statement)}
