"""Sum an archive to an `Aggregate`, the same as the collector's.

Parts are blocks of the collector, so the rule is the collector's own: an answer is the sum of
whole blocks, and each block holds `min_reports` in all, and in each cohort none or its floor.

Row groups of one part are a task, which any worker can count; the counts of all tasks are added up.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise

from collector.archive.parts import (
    ArchivedPart,
    PartCounts,
    check_digest,
    count_groups,
    folder_of,
    read_entries,
    read_entry,
)
from collector.archive.store import NotArchivedError, Store, open_store
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.metric import Metric

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
        advance: is told how many reports were counted.

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
    left = Counter(task.part for task in tasks)
    total, sums = PartCounts.zero(newest.params), dict[str, PartCounts]()
    for task, counts in run(tasks):
        part = task.part
        sums[part] = sums[part].plus(counts) if part in sums else counts
        left[part] -= 1
        advance(int(counts.reports_per_cohort.sum()))
        if not left[part]:
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
    """The entries of the one version that is asked for."""
    every = list(read_entries(store, folder_of(metric)))
    versions = sorted({entry.params_id for entry in every})
    if not versions:
        names = sorted({entry.metric for entry in read_entries(store)})
        held = f"it holds {', '.join(names)}" if names else "it holds nothing"
        raise NotArchivedError(f"the archive has no reports of metric {metric!a}; {held}")
    if params_id is None and len(versions) > 1:
        raise NotArchivedError(
            f"{metric!a} is there in {len(versions)} versions, whose counts cannot be "
            f"added; name one with --params-id: {', '.join(versions)}"
        )
    found = [entry for entry in every if entry.params_id == (params_id or versions[0])]
    if not found:
        raise NotArchivedError(
            f"{metric!a} has no params_id {params_id!a} here; it has {', '.join(versions)}"
        )
    return found
