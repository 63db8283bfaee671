"""Raw reports, which are exported in pages or moved to an archive as sealed blocks.

A sealed block never changes, so it can be moved as a whole, exactly once. Its reports are returned
by cohort, in the order of random marks across all days, so that an export does not reveal a time
more precisely than the block.
"""

import heapq
import json
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date
from itertools import islice

from sqlalchemy import Connection

from collector.domain.registry import RegisteredSeries, Registry, load_registry
from collector.errors import DamagedBlocksError, NotServedError
from collector.store.blocks import (
    BlockRow,
    Doubt,
    count_strays,
    counts_by_cohort,
    damages,
    read_rows,
    sum_blocks,
)
from collector.store.database import CollectorDatabase
from collector.store.raw import (
    FIRST,
    count_raw,
    delete_raw_cohort,
    raw_cohort_page,
    raw_days,
    raw_page,
)
from rappor_core.calendar import date_of, day_of
from rappor_core.metrics.metric import Metric
from rappor_core.text import counted
from rappor_core.wire.json import report_fields
from rappor_core.wire.report import Report
from rappor_server.errors import StorageError

SOON = 2  # how many days in advance the deletion of raw reports is announced
PAGE = 50_000  # reports read in one short transaction, over all days of a block
_MIN_PAGE = 100
_NO_DAYS = (0, -1)
_DELETED_AT_ONCE = 20_000


@dataclass(frozen=True, slots=True)
class RawBlock:
    """A sealed block with raw reports, and its counters (m,) and (m, k)."""

    metric: Metric
    series_id: int
    days: tuple[int, int]  # the first and last day since 1970-01-01; (0, -1) if unreadable
    num_raw: int
    reports_per_cohort: tuple[int, ...]
    bit_counts: tuple[tuple[int, ...], ...]
    damage: str = ""  # why the counters could not be read

    @property
    def first_day(self) -> date | None:
        """Return the first day of the block; None if unknown."""
        return date_of(self.days[0]) if self.days != _NO_DAYS else None

    @property
    def last_day(self) -> date | None:
        """Return the last day of the block, inclusive; None if unknown."""
        return date_of(self.days[1]) if self.days != _NO_DAYS else None


def find_expiring(
    connection: Connection, registry: Registry, now: int
) -> list[tuple[RegisteredSeries, int]]:
    """Return (series, day) pairs for all raw reports that will be deleted within `SOON` days.

    `now` is the clock's day.
    """
    return [
        (entry, day)
        for entry in registry
        if entry.metric.keep_raw_days
        for day in raw_days(connection, entry.series_id, now - entry.metric.keep_raw_days + SOON)
        if day <= entry.closed_through
    ]


def find_damaged(connection: Connection, registry: Registry) -> list[tuple[RegisteredSeries, str]]:
    """Return each series with a damaged block, and the reason."""
    by_series: defaultdict[int, list[BlockRow]] = defaultdict(list)
    for row in read_rows(connection):
        by_series[row.series_id].append(row)
    damaged = []
    for entry in registry:
        doubt = next(filter(None, damages(by_series[entry.series_id])), None)
        if doubt is not None:
            damaged.append((entry, doubt.reason))
    return damaged


class RawBlocks:
    """The sealed blocks with raw reports, of one metric or of all."""

    def __init__(self, database: CollectorDatabase, name: str | None = None) -> None:
        self._database = database
        self._name = name

    def blocks(self) -> Iterator[RawBlock]:
        """Yield the sealed blocks with raw reports, oldest first within a series.

        Each block is read just before it is yielded. Raises NotFoundError if the name is unknown.
        After the last block, raises DamagedBlocksError if there are rows of unknown series.
        """
        with self._database.read() as connection:
            registry = load_registry(connection)
            if self._name is not None:
                registry.current(self._name)
            entries = [
                entry
                for entry in registry
                if entry.metric.keep_raw_days and self._name in (None, entry.metric.name)
            ]
        for entry in entries:
            with self._database.read() as connection:
                rows = read_rows(connection, entry.series_id)
                registry = load_registry(connection, registry)  # days close before they are folded
            closed = registry.by_id[entry.series_id].closed_through
            for block, doubt in zip(rows, damages(rows, closed), strict=True):
                if block.sealed or (doubt and block is not rows[-1]):
                    raw_block = self._read(entry, block, doubt)
                    if raw_block.num_raw or raw_block.damage:
                        yield raw_block
        with self._database.read() as connection:
            strays = count_strays(connection)
        if strays:
            raise DamagedBlocksError(
                f"table blocks: {counted(strays, 'row')} of no series; restore a backup"
            )

    def _read(self, entry: RegisteredSeries, block: BlockRow, doubt: Doubt | None) -> RawBlock:
        """Return a block, with `damage` set if it cannot be read, so that reading can continue.

        `doubt` is a suspicion about the block's row. If it may concern a neighbor instead, and the
        raw reports equal the row's number, the neighbor is damaged and this block is good.
        """
        days = (block.first_day, block.last_day) if block.is_possible else _NO_DAYS
        params = entry.metric.params
        try:
            with self._database.read() as connection:
                if doubt is None or not doubt.is_sure:
                    sums = sum_blocks(connection, [block.id])
                    if sum(sum_.num_reports for sum_ in sums.values()) != block.num_reports:
                        raise DamagedBlocksError(
                            "its row and its counters disagree on the reports; restore a backup"
                        )
                    num_raw = count_raw(connection, entry.series_id, *days)
                    counts = counts_by_cohort(sums, params.num_cohorts, params.num_bits)
                    if doubt is None or num_raw == block.num_reports:
                        return RawBlock(entry.metric, entry.series_id, days, num_raw, *counts)
            reason = f"{doubt.reason}; restore a backup"
        except StorageError as error:
            reason = str(error)
        except (struct.error, TypeError, ValueError):  # invalid counters
            reason = "its counters are damaged: restore a backup"
        return RawBlock(entry.metric, entry.series_id, days, 0, (), (), reason)

    def reports(self, block: RawBlock, cohort: int) -> Iterator[bytes]:
        """Yield the reports of a cohort as joined bytes, in pieces of up to `PAGE` reports."""
        first, last = block.days
        page = max(_MIN_PAGE, PAGE // (last - first + 1))
        days = (self._of_day(block, day, cohort, page) for day in range(first, last + 1))
        merged = heapq.merge(*days)
        while piece := b"".join([bits for _, bits in islice(merged, page)]):
            yield piece

    def forget(self, block: RawBlock) -> None:
        """Delete a block's raw reports in short transactions. Counters remain."""
        for day in range(block.days[0], block.days[1] + 1):
            for cohort in range(len(block.reports_per_cohort)):
                where, deleted = (block.series_id, day, cohort), _DELETED_AT_ONCE
                while deleted == _DELETED_AT_ONCE:
                    with self._database.add() as connection:
                        deleted = delete_raw_cohort(connection, where, _DELETED_AT_ONCE)

    def _of_day(
        self, block: RawBlock, day: int, cohort: int, page: int
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield (mark, bits) pairs of a day's reports in a cohort, read in short transactions."""
        after = b""
        while True:
            with self._database.read() as connection:
                rows = raw_cohort_page(connection, (block.series_id, day, cohort), after, page)
            if not rows:
                return
            yield from rows
            after = rows[-1][0]


EXPORT_PAGE = 1_000  # reports read in one short transaction

Open = Callable[[], AbstractContextManager[Connection]]


@dataclass(frozen=True, slots=True)
class Export:
    """The series and days of an export, checked before any report is read."""

    entry: RegisteredSeries
    days: tuple[int, int]  # the first and last day, inclusive
    num_reports: int  # the number of reports to export


def plan_export(
    connection: Connection,
    name: str,
    params_id: str | None = None,
    first: date | None = None,
    last: date | None = None,
) -> Export:
    """Check and return an export of raw reports; without bounds, of all closed days.

    Raises NotFoundError if unknown, or NotServedError if a day is open or has no raw reports.
    """
    entry = load_registry(connection).current(name, params_id)
    closed = entry.closed_through
    if first is not None and last is not None and first > last:
        raise NotServedError(
            f"the window {first} to {last} runs backwards", reason="window_backwards"
        )
    for day in filter(None, (first, last)):
        if day_of(day) > closed:
            raise NotServedError(
                f"day {day} is not closed; days are closed through {date_of(closed)}",
                reason="day_open",
            )
    days = 0 if first is None else day_of(first), closed if last is None else day_of(last)
    count = count_raw(connection, entry.series_id, *days)
    if not count:
        days_kept = raw_days(connection, entry.series_id, date.max.toordinal())
        waiting = next((day for day in days_kept if day > closed), None)
        raise _none_kept(entry, waiting if last is None else None)
    return Export(entry, days, count)


def _none_kept(entry: RegisteredSeries, waiting: int | None) -> NotServedError:
    """Return the error for a window without raw reports; `waiting` is an open day that has some."""
    metric = entry.metric
    what = f"metric {metric.name!a}"
    if waiting is not None:
        through = date_of(entry.closed_through)
        return NotServedError(
            f"the raw reports of {what} are of days that are not closed, from {date_of(waiting)} "
            f"on; days are closed through {through}",
            reason="day_open",
        )
    retention = f"it keeps them for keep_raw_days = {metric.keep_raw_days} days"
    if metric.keep_raw_days > entry.patience:
        why = f"{retention}, unless an archive took them; give other days"
    else:
        why = (
            f"{retention}, and a day closes after {entry.patience} days, the largest accept_days "
            "of all versions; to export, the first must be the larger"
        )
    return NotServedError(
        f"no raw reports of {what} are kept for these days: {why}", reason="not_kept"
    )


def pages(opened: Open, export: Export) -> Iterator[list[Report]]:
    """Yield pages of an export's reports, by day and cohort, in random order within a cohort.

    `opened` is a function that begins a short transaction.
    """
    metric, after = export.entry.metric, FIRST
    while True:
        with opened() as connection:
            rows = raw_page(connection, export.entry.series_id, *export.days, after, EXPORT_PAGE)
        if not rows:
            return
        yield [
            Report(metric.name, metric.params_id, cohort, date_of(day), bits)
            for (day, cohort, _), bits in rows
        ]
        after = rows[-1][0]


def as_lines(reports: list[Report]) -> bytes:
    """Format reports as lines of JSON, with the fields of the wire format."""
    lines = [json.dumps(report_fields(report), separators=(",", ":")) for report in reports]
    return ("\n".join(lines) + "\n").encode("ascii")
