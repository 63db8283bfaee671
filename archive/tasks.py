"""The map step of a sum over the archive: row groups of one part become counts, on any worker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from archive.bit_sums import Bytes, Counts
from archive.errors import ArchiveDamagedError
from archive.keys import load_key
from archive.layouts import sum_rows
from archive.manifest import ArchivedPart
from archive.parquet import Cohorts, open_part, read_group, reading
from archive.store import open_store

TASK_REPORTS = 16_000_000  # of a task: fractions of a second of work


@dataclass(frozen=True, slots=True)
class SpanTask:
    """The work of counting some row groups of one part, small enough to send to a worker.

    archive: path or URL.  key_file: path of the key, on the worker.  first, last: row groups, the
    last not included.  linked: bits of each of two linked reports.
    """

    archive: str
    key_file: str | None
    part: str
    file: str
    first: int
    last: int
    num_cohorts: int
    num_bits: int
    linked: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class PartCounts:
    """Counts of a task's row groups: reports per cohort (m,) and bit counts (m, k)."""

    reports_per_cohort: Counts
    bit_counts: Counts

    def plus(self, other: PartCounts) -> PartCounts:
        """Add the counts of two tasks, for the reduce step."""
        return PartCounts(
            self.reports_per_cohort + other.reports_per_cohort, self.bit_counts + other.bit_counts
        )


def no_counts(num_cohorts: int, num_bits: int) -> PartCounts:
    """Counts of zero, of a given shape."""
    return PartCounts(
        np.zeros(num_cohorts, dtype=np.int64), np.zeros((num_cohorts, num_bits), dtype=np.int64)
    )


def tasks_of(
    entry: ArchivedPart, archive: str, key_file: str | None, task_reports: int = TASK_REPORTS
) -> Iterator[SpanTask]:
    """Split a part into tasks; each of its row groups is in one task."""
    num_groups = -(-entry.num_reports // entry.rows_in_group)
    step = max(1, task_reports // entry.rows_in_group)
    shape = (*entry.shape, entry.linked)
    for first in range(0, num_groups, step):
        last = min(num_groups, first + step)
        yield SpanTask(archive, key_file, entry.name, entry.file, first, last, *shape)


def count_part(task: SpanTask) -> PartCounts:
    """Sum the reports of a task. Raises ArchiveDamagedError."""
    key = load_key(None if task.key_file is None else Path(task.key_file))
    counts = no_counts(task.num_cohorts, task.num_bits)
    store = open_store(task.archive)
    with open_part(store, task.file) as file, reading(file, task.file, key) as opened:
        if opened.num_row_groups < task.last:
            raise ArchiveDamagedError(
                f"{task.file}: {opened.num_row_groups} row groups, and {task.last} are expected"
            )
        for group in range(task.first, task.last):
            add_rows(counts, *read_group(opened, group), task.linked)
    return counts


def add_rows(
    counts: PartCounts, cohorts: Cohorts, rows: Bytes, linked: tuple[int, int] | None = None
) -> None:
    """Add rows, sorted by cohort, to counts in place. Raises ArchiveDamagedError.

    linked: bits of each of two linked reports, if that is what a row holds.
    """
    num_cohorts, num_bits = counts.bit_counts.shape
    if rows.shape[1] != sum((bits + 7) // 8 for bits in linked or (num_bits,)):
        raise ArchiveDamagedError(f"reports of {rows.shape[1]} bytes, for {num_bits} bits")
    if not len(cohorts):
        return
    if cohorts[0] < 0 or cohorts[-1] >= num_cohorts or bool((np.diff(cohorts) < 0).any()):
        raise ArchiveDamagedError("cohorts are not in order, or outside the parameters")
    bounds = np.searchsorted(cohorts, np.arange(cohorts[0], cohorts[-1] + 2))
    for cohort, start, end in zip(
        range(int(cohorts[0]), num_cohorts), bounds[:-1], bounds[1:], strict=False
    ):
        counts.reports_per_cohort[cohort] += end - start
        counts.bit_counts[cohort] += sum_rows(rows[start:end], num_bits, linked)
