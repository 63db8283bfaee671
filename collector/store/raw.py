"""Raw reports, for metrics that store them."""

from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, tuple_

from collector.store.models import raw_reports
from rappor_server.errors import StorageError

Key = tuple[int, int, bytes]  # day, cohort, and a random mark that distinguishes equal reports
RawRow = tuple[int, int, int, bytes, bytes]  # the columns: series, day, cohort, mark, bits
FIRST: Key = (-1, -1, b"")


def keep_raw(connection: Connection, rows: list[RawRow]) -> None:
    """Insert raw reports, in the order of their random marks."""
    if rows:
        names = [column.name for column in raw_reports.columns]
        ordered = sorted(rows, key=lambda row: row[3])
        values = [dict(zip(names, row, strict=True)) for row in ordered]
        connection.execute(insert(raw_reports), values)


def delete_raw(connection: Connection, series_id: int, before: int) -> int:
    """Delete a series' raw reports for days before `before`; return their number."""
    old = (raw_reports.c.series_id == series_id, raw_reports.c.day < before)
    return connection.execute(delete(raw_reports).where(*old)).rowcount


def count_raw(connection: Connection, series_id: int, first: int, last: int) -> int:
    """Return the number of a series' stored raw reports, for days from `first` to `last`."""
    which = _of_days(series_id, first, last)
    statement = select(func.count()).select_from(raw_reports).where(*which)
    return int(connection.execute(statement).scalar_one())


def raw_days(connection: Connection, series_id: int, before: int) -> list[int]:
    """Return a series' days before `before` with raw reports; each costs one index lookup."""
    day, days = raw_reports.c.day, list[int]()
    of_series = select(func.min(day)).where(raw_reports.c.series_id == series_id)
    while True:
        latest = days[-1] if days else -1
        earliest = connection.execute(of_series.where(day > latest, day < before)).scalar()
        if earliest is None:
            return days
        days.append(earliest)


def raw_page(
    connection: Connection, series_id: int, first: int, last: int, after: Key, limit: int
) -> list[tuple[Key, bytes]]:
    """Return up to `limit` (key, bits) pairs with keys above `after`, in the order of keys."""
    key = (raw_reports.c.day, raw_reports.c.cohort, raw_reports.c.mark)
    statement = (
        select(*key, raw_reports.c.bits)
        .where(*_of_days(series_id, first, last), tuple_(*key) > after)
        .order_by(*key)
        .limit(limit)
    )
    rows = connection.execute(statement)
    return [((day, cohort, _stored(mark)), _stored(bits)) for day, cohort, mark, bits in rows]


def raw_cohort_page(
    connection: Connection, where: tuple[int, int, int], after: bytes, limit: int
) -> list[tuple[bytes, bytes]]:
    """Return up to `limit` (mark, bits) pairs above a mark; `where` is (series, day, cohort)."""
    mark = raw_reports.c.mark
    statement = (
        select(mark, raw_reports.c.bits)
        .where(*_of_cohort(*where), mark > after)
        .order_by(mark)
        .limit(limit)
    )
    return [(_stored(mark), _stored(bits)) for mark, bits in connection.execute(statement)]


def _stored(value: object) -> bytes:
    """Return the stored bytes. Raises StorageError if the value is damaged and has another type.

    SQLite stores a type with each value, which damage can change, too.
    """
    if not isinstance(value, bytes | memoryview):
        kind = type(value).__name__
        raise StorageError(f"a raw report is damaged: it is {kind}, not bytes")
    return bytes(value)


def delete_raw_cohort(connection: Connection, where: tuple[int, int, int], limit: int) -> int:
    """Delete up to `limit` reports of `where` (series_id, day, cohort); return their number."""
    mark = raw_reports.c.mark
    some = select(mark).where(*_of_cohort(*where)).order_by(mark).limit(1).offset(limit - 1)
    last = connection.execute(some).scalar()
    bound = () if last is None else (mark <= last,)
    return connection.execute(delete(raw_reports).where(*_of_cohort(*where), *bound)).rowcount


def _of_cohort(series_id: int, day: int, cohort: int) -> tuple[Any, ...]:
    columns = raw_reports.c
    return (columns.series_id == series_id, columns.day == day, columns.cohort == cohort)


def _of_days(series_id: int, first: int, last: int) -> tuple[Any, ...]:
    return (raw_reports.c.series_id == series_id, raw_reports.c.day.between(first, last))
