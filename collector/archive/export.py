"""The move of raw reports from a collector to an archive, exactly once even if it is killed.

A sealed block of the collector never changes, so blocks are moved as a whole. A block's file is
written, read back and checked against the collector's own counters. Then its entry is committed,
and only then are its rows deleted. If the process is killed before the commit, it leaves a file
that is never counted, and the next export writes a new file. If it is killed after the commit, it
leaves rows, which the next export deletes once the part is verified. Of two concurrent exports, one
commits.

A block that is damaged, in the database or in the archive, is skipped with a reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING

import numpy as np

from collector.archive.parquet import Bytes
from collector.archive.parts import (
    PartCounts,
    entry_name,
    folder_of,
    read_entries,
    verify_part,
    write_part,
)
from collector.archive.store import ArchiveDamagedError, Store
from rappor_core.errors import RapporError

if TYPE_CHECKING:
    from collector.domain.raw_blocks import RawBlock, RawBlocks  # needs a database

MOVED, EARLIER, ELSEWHERE = "moved", "moved earlier", "another export was first"
INCOMPLETE, DUE, OVERLAPS = "incomplete", "out of time", "overlaps"
SET_ASIDE = "set aside"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an export did with one block: moved it, left it or skipped it."""

    metric: str
    first_day: date | None  # None if unreadable
    last_day: date | None
    num_reports: int  # the number of reports that were moved or left
    what: str  # one of the module's constants, such as `SET_ASIDE`
    reason: str = ""  # why the block was skipped


def export(source: RawBlocks, store: Store, today: date) -> Iterator[Outcome]:
    """Move every block that is intact and not expired; yield the outcome for each block.

    A block that lacks some raw reports (never stored, or expired) is not moved. Otherwise the
    difference between the collector's sums and the part's would reveal the missing reports.

    Raises OSError if the archive's disk fails.
    """
    for block in source.blocks():
        what, reason = SET_ASIDE, ""
        try:
            what = _move(source, block, store, today)
        except RapporError as error:  # damage in the archive or in the database
            reason = str(error)
        name, days = block.metric.name, (block.first_day, block.last_day)
        yield Outcome(name, *days, block.num_raw, what, reason)


def _move(source: RawBlocks, block: RawBlock, store: Store, today: date) -> str:
    metric, first_day, last_day = block.metric, block.first_day, block.last_day
    if block.damage or first_day is None or last_day is None:
        raise ArchiveDamagedError(block.damage)
    name = entry_name(metric.name, metric.params_id, first_day.isoformat())
    entries = list(read_entries(store, folder_of(metric.name, metric.params_id)))
    digest = PartCounts(np.array(block.reports_per_cohort), np.array(block.bit_counts)).digest
    for entry in entries:
        is_same = entry.name == name and entry.last_day == last_day.isoformat()
        if is_same and entry.counts_digest == digest:
            verify_part(store, entry)  # if it is damaged, the rows are the only copy
            source.forget(block)
            return EARLIER
        if is_same or entry.touches(first_day, last_day):
            return OVERLAPS
    if today > first_day + timedelta(days=metric.keep_raw_days):
        return DUE
    if block.num_raw < sum(block.reports_per_cohort):
        return INCOMPLETE
    if block.num_raw > sum(block.reports_per_cohort):
        raise _other_reports(block)

    def check(sums: PartCounts) -> None:
        if sums.digest != digest:  # must equal the collector's counters, bit for bit
            raise _other_reports(block)

    try:
        write_part(store, metric, (first_day, last_day), _pieces(source, block), check)
    except FileExistsError:
        return ELSEWHERE
    source.forget(block)
    return MOVED


def _pieces(source: RawBlocks, block: RawBlock) -> Iterator[tuple[int, Bytes]]:
    params = block.metric.params
    for cohort in range(params.num_cohorts):
        for piece in source.reports(block, cohort):
            if len(piece) % params.report_bytes:
                raise _other_reports(block)
            yield cohort, np.frombuffer(piece, dtype=np.uint8).reshape(-1, params.report_bytes)


def _other_reports(block: RawBlock) -> ArchiveDamagedError:
    return ArchiveDamagedError(
        f"metric {block.metric.name!a}, {block.first_day} to {block.last_day}: the raw reports "
        "do not match the collector's counters; nothing was moved"
    )
