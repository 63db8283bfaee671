"""Database rows of daily series."""

from __future__ import annotations

from dataclasses import dataclass, fields

from sqlalchemy import Connection, insert, select, update

from decoder_service.shell.models import daily_series


@dataclass(frozen=True, slots=True)
class DailySeriesRow:
    """The daily series of a metric.

    list_id: the list of values to look for; None: the metric's own.  asked: digest of what was
    queued last, or "".  job_id: the job that waits or runs.  result_id: the newest series.
    problem: why the last job gave none, or "".
    """

    metric: str
    enabled: bool = True
    list_id: str | None = None
    asked: str = ""
    job_id: str | None = None
    result_id: str | None = None
    problem: str = ""


_NAMES = [field.name for field in fields(DailySeriesRow)]
_COLUMNS = [daily_series.c[name] for name in _NAMES]


def load_daily_series(connection: Connection) -> dict[str, DailySeriesRow]:
    """All rows, by metric."""
    return {row[0]: DailySeriesRow(*row) for row in connection.execute(select(*_COLUMNS))}


def load_daily_series_of(connection: Connection, metric: str) -> DailySeriesRow:
    """The row of a metric; the default where none is stored."""
    found = connection.execute(select(*_COLUMNS).where(daily_series.c.metric == metric)).first()
    return DailySeriesRow(metric) if found is None else DailySeriesRow(*found)


def store_daily_series(connection: Connection, before: DailySeriesRow, row: DailySeriesRow) -> bool:
    """Store a changed row unless another process changed it first; whether it was stored.

    Raises ConflictError where another process made it first.
    """
    values = {name: getattr(row, name) for name in _NAMES}
    if before == DailySeriesRow(before.metric):
        known = select(daily_series.c.metric).where(daily_series.c.metric == row.metric)
        if connection.execute(known).first() is None:
            connection.execute(insert(daily_series).values(values))
            return True
    same = [daily_series.c[name].is_not_distinct_from(getattr(before, name)) for name in _NAMES]
    return connection.execute(update(daily_series).where(*same).values(values)).rowcount == 1
