"""Sums of an archive as an `Aggregate` that equals the collector's.

Parts are blocks of the collector, so the collector's rule applies: an answer is the sum of whole
blocks. Each block has at least `min_reports` in total, and each of its cohorts has either no
reports or at least the floor.

A task is some row groups of one part, which any worker can count; the counts of all tasks are added
up. google/rappor's report files can be summed, too: `client,cohort,bloom,prr,irr`, bit strings,
highest bit first. Only `cohort` and `irr` are read; `client`, which would link reports of one
device, is dropped.
"""

import csv
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import islice, pairwise
from pathlib import Path

import numpy as np

from collector.archive.parquet import Bytes
from collector.archive.parts import (
    ArchivedPart,
    PartCounts,
    check_digest,
    count_groups,
    folder_of,
    read_entries,
    read_entry,
)
from collector.archive.store import ArchiveError, NotArchivedError, Store, open_store
from rappor_core.aggregate import Aggregate
from rappor_core.errors import shown
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams

TASK_REPORTS = 16_000_000  # per task, which takes less than a second

Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class SpanTask:
    """The task of counting some row groups of one part, small enough to send to a worker."""

    archive: str  # the archive's path or URL
    part: str  # the name of the part's entry
    first: int  # the first row group
    last: int  # the end of the row groups, exclusive


Run = Callable[[Iterable[SpanTask]], Iterator[tuple[SpanTask, PartCounts]]]


def choose_parts(
    store: Store,
    metric: str,
    params_id: str | None = None,
    first_day: date | None = None,
    last_day: date | None = None,
) -> list[ArchivedPart]:
    """Choose the archived parts that make up a window, oldest first.

    Args:
        store: The store of the archive.
        metric: The name of the metric.
        params_id: The version; None if the archive has only one.
        first_day: The first day of the window; None for the first archived day.
        last_day: The last day, inclusive; None for the last archived day.

    Raises:
        NotArchivedError: The archive does not contain the window; the message states what it has.
    """
    entries = sorted(_version(store, metric, params_id), key=lambda entry: entry.first_day)
    first = str(first_day or entries[0].first_day)
    last = str(last_day or entries[-1].last_day)
    chosen = [entry for entry in entries if entry.touches(first, last)]
    for entry in chosen:  # the collector's rule: a window includes a whole block or none of it
        if entry.first_day < first or last < entry.last_day:
            raise NotArchivedError(
                f"metric {metric!a}: days {entry.first_day} to {entry.last_day} were merged, "
                "because a day had too few reports in all or in a cohort; a window includes all "
                "of them or none"
            )
    there = f"the archive has {entries[0].first_day} to {entries[-1].last_day}"
    if not chosen:
        raise NotArchivedError(f"{metric!a}: no part from {first} to {last}; {there}")
    if last > chosen[-1].last_day:
        raise NotArchivedError(f"{metric!a}: {last} is not archived yet; {there}")
    for before, after in pairwise(chosen):
        expected = date.fromisoformat(before.last_day) + timedelta(days=1)
        if after.first_day != expected.isoformat():
            raise NotArchivedError(
                f"{metric!a}: days {expected} to the day before {after.first_day} are not in "
                "the archive; request the days before or after them"
            )
    return chosen


def aggregate(
    entries: Sequence[ArchivedPart],
    archive: str,
    run: Run,
    *,
    cohorts: Collection[int] | None = None,
    task_reports: int = TASK_REPORTS,
    advance: Advance = lambda _: None,
) -> Aggregate:
    """Sum the reports in archived parts into an aggregate.

    Args:
        entries: The entries from `choose_parts`.
        archive: The archive's path or URL, valid on a worker.
        run: A function that yields each task with the result of `count_part`, in any order.
        cohorts: The cohorts to count; None for all.
        task_reports: The maximum number of reports in a task.
        advance: A function that is called with the number of newly counted reports.

    Raises:
        ArchiveDamagedError: The sums of a part do not match its entry.
    """
    tasks = []
    for entry in entries:  # each row group belongs to one task
        num_groups = -(-entry.num_reports // entry.rows_in_group)
        step = max(1, task_reports // entry.rows_in_group)
        for start in range(0, num_groups, step):
            tasks.append(SpanTask(archive, entry.name, start, min(num_groups, start + step)))
    by_name, newest = {entry.name: entry for entry in entries}, entries[-1]
    tasks_left = Counter(task.part for task in tasks)
    total, sums = PartCounts.zero(newest.params), dict[str, PartCounts]()
    for task, counts in run(tasks):
        part = task.part
        sums[part] = sums[part].plus(counts) if part in sums else counts
        tasks_left[part] -= 1
        advance(int(counts.reports_per_cohort.sum()))
        if not tasks_left[part]:
            check_digest(by_name[part], sums[part])
            total = total.plus(sums.pop(part))
    reports_per_cohort, bit_counts = total.as_tuples()
    whole = Aggregate(
        metric=newest.metric,
        params=newest.params,
        params_id=newest.params_id,
        definition=Metric.from_dict(newest.definition).to_dict(),
        first_day=date.fromisoformat(entries[0].first_day),
        last_day=date.fromisoformat(newest.last_day),
        reports_per_cohort=reports_per_cohort,
        bit_counts=bit_counts,
    )
    if cohorts is None:
        return whole
    return whole.without(set(range(newest.params.num_cohorts)) ^ set(cohorts))


def count_part(task: SpanTask) -> PartCounts:
    """Sum the reports of a task. Raises ArchiveDamagedError if they are damaged."""
    store = open_store(task.archive)
    entry = read_entry(store, task.part)
    return count_groups(store, entry.file, entry.params, task.first, task.last)


def _version(store: Store, metric: str, params_id: str | None) -> list[ArchivedPart]:
    """Return the entries of a metric's version (None: the only one), or raise NotArchivedError."""
    every = list(read_entries(store, folder_of(metric)))
    versions = sorted({entry.params_id for entry in every})
    if not versions:
        names = sorted({entry.metric for entry in read_entries(store)})
        content = f"it contains {', '.join(names)}" if names else "it is empty"
        raise NotArchivedError(f"the archive has no reports of metric {metric!a}; {content}")
    if params_id is None and len(versions) > 1:
        raise NotArchivedError(
            f"{metric!a} has {len(versions)} versions, whose counts cannot be "
            f"added; name one with --params-id: {', '.join(versions)}"
        )
    matches = [entry for entry in every if entry.params_id == (params_id or versions[0])]
    if not matches:
        raise NotArchivedError(
            f"{metric!a} has no params_id {params_id!a} here; it has {', '.join(versions)}"
        )
    return matches


HEADER = ["client", "cohort", "bloom", "prr", "irr"]
_LINES = 100_000  # lines read at once
_ONE = ord("1")


def sum_report_file(path: Path, metric: str, params: RapporParams) -> Aggregate:
    """Sum a report file into an aggregate without days, in limited memory.

    Args:
        path: The path of the file.
        metric: The metric name of the aggregate.
        params: The parameters of the reports, such as those of google/rappor's params.csv.

    Raises:
        ArchiveError: A line is not a report; the message names it.
    """
    counts = PartCounts.zero(params)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        header = [cell.strip() for cell in next(reader, [])]
        if header != HEADER:
            raise ArchiveError(f"{path}: expected the header {','.join(HEADER)}")
        line = 2
        while rows := list(islice(reader, _LINES)):
            cohorts, bits = _parse(path, line, rows, params)
            order = np.argsort(cohorts, kind="stable")
            counts.add_rows(cohorts[order], bits[order])
            line += len(rows)
    if not counts.reports_per_cohort.any():
        raise ArchiveError(f"{path}: has no reports")
    reports_per_cohort, bit_counts = counts.as_tuples()
    return Aggregate(metric, params, reports_per_cohort, bit_counts)


def _parse(
    path: Path, first: int, rows: list[list[str]], params: RapporParams
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int32]], Bytes]:
    """Parse lines, from line number `first`, into cohorts (n,) and reports (n, report_bytes)."""
    k, m = params.num_bits, params.num_cohorts
    cohorts = np.empty(len(rows), dtype=np.int32)
    for number, row in enumerate(rows):
        if len(row) != len(HEADER):
            raise ArchiveError(f"{path}: line {first + number}: {len(row)} cells of {len(HEADER)}")
        digits, bits = row[1].strip(), row[4].strip()
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 10 and int(digits) < m):
            raise ArchiveError(
                f"{path}: line {first + number}: cohort {shown(row[1])}; 0 to {m - 1} are expected"
            )
        if len(bits) != k or bits.strip("01"):
            raise ArchiveError(
                f"{path}: line {first + number}: irr {shown(row[4])}; {k} digits 0 and 1 are "
                "expected"
            )
        cohorts[number] = int(digits)
    text = "".join(row[4].strip() for row in rows).encode("ascii")
    bits_of = np.frombuffer(text, dtype=np.uint8).reshape(-1, k)
    return cohorts, np.packbits(bits_of[:, ::-1] == _ONE, axis=1, bitorder="little")
