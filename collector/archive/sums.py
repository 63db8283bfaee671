"""Sum an archive to an `Aggregate`, the same as the collector's.

Parts are blocks of the collector, so the rule is the collector's own: an answer is the sum of
whole blocks, and each block holds `min_reports` in all, and in each cohort none or its floor.

Row groups of one part are a task, which any worker can count; the counts of all tasks are added up.

Also google/rappor's report files: `client,cohort,bloom,prr,irr`, bit strings, highest bit first.
Only `cohort` and `irr` are read; `client`, which would link reports of one device, is dropped.
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

TASK_REPORTS = 16_000_000  # of a task: fractions of a second of work

Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class SpanTask:
    """The work of counting some row groups of one part, small enough to send to a worker.

    archive: path or URL.  part: name of its entry.  first, last: row groups, the last not included.
    """

    archive: str
    part: str
    first: int
    last: int


Run = Callable[[Iterable[SpanTask]], Iterator[tuple[SpanTask, PartCounts]]]


def choose_parts(
    store: Store,
    metric: str,
    params_id: str | None = None,
    first_day: date | None = None,
    last_day: date | None = None,
) -> list[ArchivedPart]:
    """Choose the archived parts of a window, oldest first.

    Args:
        store: Of the archive.
        metric: Its name.
        params_id: Of a version; None where the archive holds one.
        first_day: First day of the window; None for no bound.
        last_day: Last day, inclusive; None for no bound.

    Raises:
        NotArchivedError: The archive does not hold the window; the message says what it holds.
    """
    entries = sorted(_version(store, metric, params_id), key=lambda entry: entry.first_day)
    first = str(first_day or entries[0].first_day)
    last = str(last_day or entries[-1].last_day)
    chosen = [entry for entry in entries if entry.touches(first, last)]
    for entry in chosen:  # the collector's rule: a window takes a block whole or not at all
        if entry.first_day < first or last < entry.last_day:
            raise NotArchivedError(
                f"metric {metric!a}: days {entry.first_day} to {entry.last_day} were merged, "
                "because a day had too few reports in all or in a cohort; a window takes all of "
                "them or none"
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
                "the archive; ask for the days before or after them"
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
    """Sum the reports of archived parts to an aggregate.

    Args:
        entries: of `choose_parts`.
        archive: path or URL, as a worker reaches it.
        run: yields each task with the result of `count_part`, in any order.
        cohorts: only these are counted; None is all.
        task_reports: most reports of a task.
        advance: called with the number of reports that were counted.

    Raises:
        ArchiveDamagedError: the sums of a part are not those of its entry.
    """
    tasks = []
    for entry in entries:  # each row group is in one task
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
    """Sum the reports of a task. Raises ArchiveDamagedError."""
    store = open_store(task.archive)
    entry = read_entry(store, task.part)
    return count_groups(store, entry.file, entry.params, task.first, task.last)


def _version(store: Store, metric: str, params_id: str | None) -> list[ArchivedPart]:
    """Return the entries of the one version that is asked for."""
    every = list(read_entries(store, folder_of(metric)))
    versions = sorted({entry.params_id for entry in every})
    if not versions:
        names = sorted({entry.metric for entry in read_entries(store)})
        content = f"it holds {', '.join(names)}" if names else "it holds nothing"
        raise NotArchivedError(f"the archive has no reports of metric {metric!a}; {content}")
    if params_id is None and len(versions) > 1:
        raise NotArchivedError(
            f"{metric!a} is there in {len(versions)} versions, whose counts cannot be "
            f"added; name one with --params-id: {', '.join(versions)}"
        )
    matches = [entry for entry in every if entry.params_id == (params_id or versions[0])]
    if not matches:
        raise NotArchivedError(
            f"{metric!a} has no params_id {params_id!a} here; it has {', '.join(versions)}"
        )
    return matches


HEADER = ["client", "cohort", "bloom", "prr", "irr"]
_LINES = 100_000  # read at once
_ONE = ord("1")


def sum_report_file(path: Path, metric: str, params: RapporParams) -> Aggregate:
    """Sum a report file to an aggregate without days, in bounded memory.

    Args:
        path: of the file.
        metric: name of the aggregate.
        params: of the reports, such as those of google/rappor's params.csv.

    Raises:
        ArchiveError: names the line that is not a report.
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
        raise ArchiveError(f"{path}: no reports")
    reports_per_cohort, bit_counts = counts.as_tuples()
    return Aggregate(metric, params, reports_per_cohort, bit_counts)


def _parse(
    path: Path, first: int, rows: list[list[str]], params: RapporParams
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int32]], Bytes]:
    """Cohorts (n,) and reports (n, report_bytes) of lines. first: the number of the first one."""
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
