"""Rows of blocks as stored, and checks that find damaged rows.

SQLite takes a value of any kind for a column, so a damaged row may hold text where a day was. The
blocks of a series follow each other without a gap, and only the newest is not sealed; a row that
says otherwise was not written by this code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Any, NamedTuple

from sqlalchemy import Connection, Integer, func, select, type_coerce

from collector.errors import DamagedBlocksError
from collector.store.models import block_counts, blocks, series
from rappor_core.calendar import day_of

_LAST = day_of(date.max)


@dataclass(frozen=True, slots=True)
class BlockRow:
    """A block of merged days. first_day, last_day: inclusive. sealed: it holds enough reports,
    and is served.

    smallest_cohort: of an unsealed one, the reports of its smallest cohort that is not empty.
    """

    id: int
    series_id: int
    first_day: int
    last_day: int
    num_reports: int
    sealed: bool
    smallest_cohort: int | None = None

    @property
    def is_possible(self) -> bool:
        """Whether the row's values have the types and ranges that a block's have."""
        values = (self.first_day, self.last_day, self.num_reports)
        return (
            all(type(value) is int for value in values)
            and 0 <= self.first_day <= self.last_day <= _LAST
            and self.num_reports >= 0
            and self.sealed in (False, True)
        )


def load_blocks(connection: Connection, series_id: int) -> list[BlockRow]:
    """The blocks of one series, oldest first. Raises DamagedBlocksError for rows that cannot be
    blocks."""
    rows = read_rows(connection, series_id)
    doubt = next(filter(None, damages(rows)), None)
    if doubt is not None:
        raise DamagedBlocksError(
            f"table blocks, series {series_id}: {doubt.reason}; restore a backup"
        )
    return rows


def load_possible(connection: Connection, series_id: int | None = None) -> list[BlockRow]:
    """Blocks of one series or of all, oldest first within one, without damaged rows."""
    return [row for row in read_rows(connection, series_id) if row.is_possible]


def read_rows(connection: Connection, series_id: int | None = None) -> list[BlockRow]:
    """Read blocks of one series or of all as they are stored, oldest first within a series."""
    smallest = select(func.min(block_counts.c.num_reports))
    of_unsealed = smallest.where(
        block_counts.c.block_id == blocks.c.id, blocks.c.sealed.is_(False)
    ).scalar_subquery()
    columns: list[Any] = [blocks.c[name] for name in BlockRow.__slots__ if name in blocks.c]
    columns[columns.index(blocks.c.sealed)] = type_coerce(blocks.c.sealed, Integer)  # as it is
    statement = select(*columns, of_unsealed).order_by(blocks.c.series_id, blocks.c.first_day)
    if series_id is not None:
        statement = statement.where(blocks.c.series_id == series_id)
    found: Iterable[Any] = connection.execute(statement)
    return [BlockRow(*row) for row in found]


class Doubt(NamedTuple):
    """A suspicion that a row is damaged. is_sure: it is this row; else it is this one or its
    neighbour."""

    reason: str
    is_sure: bool


def damages(rows: Sequence[BlockRow], closed_through: int = _LAST) -> list[Doubt | None]:
    """For each block of a series, oldest first, the sign that it is damaged, or None."""
    doubts: list[Doubt | None] = [
        None
        if row.is_possible and row.last_day <= closed_through
        else Doubt(f"{_said(row)} cannot be", is_sure=True)
        for row in rows
    ]
    if any(doubts):
        return doubts  # nothing tells what follows what
    for place, (one, other) in enumerate(pairwise(rows)):
        if one.last_day + 1 != other.first_day:
            reason = f"{_said(one)} and {_said(other)} do not follow each other"
            doubts[place] = doubts[place] or Doubt(reason, is_sure=False)
            doubts[place + 1] = Doubt(reason, is_sure=False)
        if not one.sealed:
            doubts[place] = Doubt(f"{_said(one)} is not sealed, and another follows", is_sure=True)
    return doubts


def count_strays(connection: Connection) -> int:
    """Number of blocks that belong to no existing series."""
    known = select(series.c.id)
    statement = select(func.count()).where(blocks.c.series_id.not_in(known))
    return int(connection.execute(statement).scalar_one())


def _said(row: BlockRow) -> str:
    return f"the block with first_day {row.first_day!a:.40} and last_day {row.last_day!a:.40}"
