"""Closed days, merged permanently into blocks.

Folding a day moves its counters into the series' one unsealed block and deletes the day's own rows,
so that not even the owner of the database can separate a merged day again.

SQLite accepts a value of any type in a column, so a damaged row may contain text in place of a day.
The blocks of a series are consecutive without gaps, and only the newest block is unsealed. Rows
that violate this were not written by this code.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Any, NamedTuple

from sqlalchemy import Connection, Integer, delete, func, insert, select, type_coerce, update

from collector.errors import DamagedBlocksError
from collector.store.counters import LANE_BYTES, CohortSum, counts
from collector.store.models import block_counts, blocks, counters, series
from rappor_core.calendar import day_of

Sums = dict[int, CohortSum]  # by cohort


def first_days(connection: Connection) -> dict[int, int]:
    """Return, by series, the first day with reports that are not folded yet."""
    first = select(func.min(counters.c.day)).where(counters.c.series_id == series.c.id)
    statement = select(series.c.id, first.scalar_subquery())
    return {row[0]: row[1] for row in connection.execute(statement) if row[1] is not None}


def first_day(connection: Connection, series_id: int) -> int | None:
    """Return a series' first day with reports that are not folded yet; None if there is none."""
    statement = select(func.min(counters.c.day)).where(counters.c.series_id == series_id)
    day: int | None = connection.execute(statement).scalar()
    return day


def fold_day(
    connection: Connection, series_id: int, day: int, min_reports: int, cohort_floor: int
) -> None:
    """Move a closed day's counters into the series' unsealed block; seal the block if possible.

    The block is sealed if it has min_reports in total, and cohort_floor in each non-empty cohort.
    The caller must have closed the day, must be the only one that folds, and must fold days in
    order. If DamagedBlocksError is raised, roll back.
    """
    where = (counters.c.series_id == series_id, counters.c.day == day)
    columns = (counters.c.cohort, counters.c.num_reports, counters.c.counts)
    added = _summed(connection.execute(select(*columns).where(*where)))
    connection.execute(delete(counters).where(*where))
    block_id = _open_block(connection, series_id, day)
    total = sum_blocks(connection, [block_id])
    for cohort, more in added.items():
        total[cohort] = total[cohort].plus(more) if cohort in total else more
    connection.execute(delete(block_counts).where(block_counts.c.block_id == block_id))
    rows = [
        {"block_id": block_id, "cohort": cohort, "num_reports": sums[0], "counts": sums[1]}
        for cohort, sums in sorted(total.items())
    ]
    if rows:
        connection.execute(insert(block_counts), rows)
    sizes = [sums.num_reports for sums in total.values()]
    is_enough = sum(sizes) >= min_reports and min(sizes, default=0) >= cohort_floor
    values = {"last_day": day, "num_reports": sum(sizes), "sealed": is_enough}
    connection.execute(update(blocks).where(blocks.c.id == block_id).values(values))


def sum_blocks(connection: Connection, block_ids: Sequence[int]) -> Sums:
    """Return the counts of several blocks of one series, by cohort."""
    columns = (block_counts.c.cohort, block_counts.c.num_reports, block_counts.c.counts)
    where = block_counts.c.block_id.in_(block_ids)
    return _summed(connection.execute(select(*columns).where(where)))


def counts_by_cohort(
    sums: Sums, num_cohorts: int, num_bits: int
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Return reports per cohort (m,) and bit counts (m, k)."""
    none = CohortSum(0, bytes(LANE_BYTES * num_bits))
    rows = [sums.get(cohort, none) for cohort in range(num_cohorts)]
    return tuple(row.num_reports for row in rows), tuple(
        counts(row.lanes, num_bits) for row in rows
    )


def count_unserved(connection: Connection) -> int:
    """Return the number of reports on days that are not in a sealed block."""
    waiting = select(func.sum(counters.c.num_reports))
    pending = select(func.sum(blocks.c.num_reports)).where(blocks.c.sealed.is_(False))
    return sum(int(connection.execute(query).scalar() or 0) for query in (waiting, pending))


def delete_unserved(connection: Connection) -> int:
    """Delete the counters of every day outside sealed blocks; return the number of reports."""
    reports = count_unserved(connection)
    unsealed = select(blocks.c.id).where(blocks.c.sealed.is_(False))
    connection.execute(delete(counters))
    connection.execute(delete(block_counts).where(block_counts.c.block_id.in_(unsealed)))
    connection.execute(delete(blocks).where(blocks.c.sealed.is_(False)))
    return reports


def accepted_totals(connection: Connection) -> dict[int, int]:
    """Return the number of reports accepted so far, by series, in open and closed days."""
    totals: dict[int, int] = {}
    for table in (counters, blocks):
        count = func.sum(table.c.num_reports)
        statement = select(table.c.series_id, count).group_by(table.c.series_id)
        for series_id, reports in connection.execute(statement):
            totals[series_id] = totals.get(series_id, 0) + int(reports)
    return totals


def _open_block(connection: Connection, series_id: int, day: int) -> int:
    """Return the id of the unsealed block, or of a new block after the last sealed block."""
    stored = load_blocks(connection, series_id)
    if stored and not stored[-1].sealed:
        return stored[-1].id
    first_day = stored[-1].last_day + 1 if stored else day
    statement = (
        insert(blocks)
        .values(series_id=series_id, first_day=first_day, last_day=day, num_reports=0, sealed=False)
        .returning(blocks.c.id)
    )
    return int(connection.execute(statement).scalar_one())


def _summed(rows: Iterable[Sequence[Any]]) -> Sums:
    sums: Sums = {}
    for cohort, num_reports, lanes in rows:
        if type(num_reports) is not int or not isinstance(lanes, bytes | memoryview):
            raise DamagedBlocksError(
                f"the counters of cohort {cohort!a:.40} are damaged; restore a backup"
            )
        part = CohortSum(num_reports, bytes(lanes))
        sums[cohort] = sums[cohort].plus(part) if cohort in sums else part
    return sums


_LAST = day_of(date.max)


@dataclass(frozen=True, slots=True)
class BlockRow:
    """A block of merged days."""

    id: int
    series_id: int
    first_day: int
    last_day: int  # inclusive
    num_reports: int
    sealed: bool  # whether it has enough reports and is served
    smallest_cohort: int | None = None  # reports in the smallest non-empty cohort, if unsealed

    @property
    def is_possible(self) -> bool:
        """Return whether the row's values have valid types and ranges for a block."""
        values = (self.first_day, self.last_day, self.num_reports)
        return (
            all(type(value) is int for value in values)
            and 0 <= self.first_day <= self.last_day <= _LAST
            and self.num_reports >= 0
            and self.sealed in (False, True)
        )


def load_blocks(connection: Connection, series_id: int) -> list[BlockRow]:
    """Return the blocks of one series, oldest first.

    Raises DamagedBlocksError if rows cannot be valid blocks.
    """
    rows = read_rows(connection, series_id)
    doubt = next(filter(None, damages(rows)), None)
    if doubt is not None:
        raise DamagedBlocksError(
            f"table blocks, series {series_id}: {doubt.reason}; restore a backup"
        )
    return rows


def load_possible(connection: Connection, series_id: int | None = None) -> list[BlockRow]:
    """Return the undamaged blocks of one series or all series, oldest first within a series."""
    return [row for row in read_rows(connection, series_id) if row.is_possible]


def read_rows(connection: Connection, series_id: int | None = None) -> list[BlockRow]:
    """Read blocks of one series or all series unchecked, oldest first within a series."""
    smallest = select(func.min(block_counts.c.num_reports))
    of_unsealed = smallest.where(
        block_counts.c.block_id == blocks.c.id, blocks.c.sealed.is_(False)
    ).scalar_subquery()
    columns: list[Any] = [blocks.c[name] for name in BlockRow.__slots__ if name in blocks.c]
    columns[columns.index(blocks.c.sealed)] = type_coerce(blocks.c.sealed, Integer)  # unconverted
    statement = select(*columns, of_unsealed).order_by(blocks.c.series_id, blocks.c.first_day)
    if series_id is not None:
        statement = statement.where(blocks.c.series_id == series_id)
    rows: Iterable[Any] = connection.execute(statement)
    return [BlockRow(*row) for row in rows]


class Doubt(NamedTuple):
    """A suspicion that a row is damaged."""

    reason: str
    is_sure: bool  # whether this row is damaged; otherwise this row or a neighbor is


def damages(rows: Sequence[BlockRow], closed_through: int = _LAST) -> list[Doubt | None]:
    """Return, for each block of a series (oldest first), a suspicion of damage or None."""
    doubts: list[Doubt | None] = [
        None
        if row.is_possible and row.last_day <= closed_through
        else Doubt(f"{_name_of(row)} cannot be", is_sure=True)
        for row in rows
    ]
    if any(doubts):
        return doubts  # the order of the blocks is unknown
    for place, (first, second) in enumerate(pairwise(rows)):
        if first.last_day + 1 != second.first_day:
            reason = f"{_name_of(first)} and {_name_of(second)} do not follow each other"
            doubts[place] = doubts[place] or Doubt(reason, is_sure=False)
            doubts[place + 1] = Doubt(reason, is_sure=False)
        if not first.sealed:
            reason = f"{_name_of(first)} is not sealed, and another follows"
            doubts[place] = Doubt(reason, is_sure=True)
    return doubts


def count_strays(connection: Connection) -> int:
    """Return the number of blocks whose series does not exist."""
    series_ids = select(series.c.id)
    statement = select(func.count()).where(blocks.c.series_id.not_in(series_ids))
    return int(connection.execute(statement).scalar_one())


def _name_of(row: BlockRow) -> str:
    return f"the block with first_day {row.first_day!a:.40} and last_day {row.last_day!a:.40}"
