"""The reduce step: from an archive to an `Aggregate`, the same as the collector's.

Parts are blocks of the collector, so the rule is the collector's own: an answer is the sum of
whole blocks, and each block holds `min_reports` in all, and in each cohort none or its floor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise

from archive.errors import ArchiveDamagedError, NotArchivedError
from archive.keys import ArchiveKey
from archive.manifest import ArchivedPart, metric_folder, params_of, read_entries, touches
from archive.parts import check_digest
from archive.pools import Pool
from archive.store import Store
from archive.tasks import PartCounts, SpanTask, no_counts, tasks_of
from rappor_core.aggregate import Aggregate
from rappor_core.association_aggregate import AssociationAggregate
from rappor_core.metrics.association import CountedAssociation
from rappor_core.metrics.metric import Metric

Advance = Callable[[int], None]
Results = Iterator[tuple[SpanTask, PartCounts]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The window to sum. params_id: None where the archive holds one version. first, last:
    inclusive, or no bound."""

    metric: str
    params_id: str | None = None
    first: date | None = None
    last: date | None = None


def choose_parts(store: Store, key: ArchiveKey, wanted: Wanted, today: date) -> list[ArchivedPart]:
    """Choose the archived parts of a window, oldest first. Raises NotArchivedError, which says
    what the archive has."""
    entries = _version(store, key, wanted)
    undated = [entry for entry in entries if entry.first_day is None]
    if undated:
        return _undated(entries, wanted, today)
    entries.sort(key=lambda entry: str(entry.first_day))
    live = [entry for entry in entries if not _gone(entry, today)]
    first = str(wanted.first or (live[0].first_day if live else ""))
    last = str(wanted.last or (live[-1].last_day if live else ""))
    if not live:
        raise NotArchivedError(f"every part of {wanted.metric!a} is past its retention date")
    touching = [entry for entry in entries if touches(entry, first, last)]
    _refuse_gone(touching, today)
    _refuse_cuts(touching, first, last, wanted.metric)
    if not touching:
        raise NotArchivedError(f"{wanted.metric!a}: no part from {first} to {last}; {_there(live)}")
    if last > str(touching[-1].last_day):
        raise NotArchivedError(f"{wanted.metric!a}: {last} is not archived yet; {_there(live)}")
    _refuse_holes(touching)
    return touching


def aggregate(
    entries: Sequence[ArchivedPart],
    archive: str,
    key_file: str | None,
    executor: Pool[SpanTask, PartCounts],
    *,
    cohorts: Collection[int] | None = None,
    task_reports: int | None = None,
    advance: Advance = lambda _: None,
) -> Aggregate | AssociationAggregate:
    """Sum the reports of archived parts to an aggregate. cohorts: only these are counted; None
    is all.

    Each task counts once, however often it was tried, and each part's sums must be those of its
    entry. Raises ArchiveDamagedError.
    """
    if cohorts is not None and entries[-1].linked is not None:
        raise NotArchivedError("the counts of an association have all cohorts; leave out --cohorts")
    more = {} if task_reports is None else {"task_reports": task_reports}
    tasks = [task for entry in entries for task in tasks_of(entry, archive, key_file, **more)]
    counts = reduce_parts(entries, tasks, executor.run(tasks), advance)
    newest = entries[-1]
    if newest.linked is not None:
        return _linked(entries, counts)
    params = params_of(newest)
    whole = Aggregate(
        metric=newest.metric,
        params=params,
        params_id=newest.params_id,
        definition=Metric.from_dict(newest.definition).to_dict() if newest.definition else {},
        first_day=_date(entries[0].first_day),
        last_day=_date(newest.last_day),
        reports_per_cohort=tuple(counts.reports_per_cohort.tolist()),
        bit_counts=tuple(map(tuple, counts.bit_counts.tolist())),
    )
    if cohorts is None:
        return whole
    return whole.without(set(range(params.num_cohorts)) ^ set(cohorts))


def _linked(entries: Sequence[ArchivedPart], counts: PartCounts) -> AssociationAggregate:
    """The counts of linked reports, as the collector gives them."""
    newest = entries[-1]
    first, second = newest.linked or (0, 0)
    metrics = [Metric.from_dict(definition) for definition in newest.definition["metrics"]]
    by_version = {(metric.name, metric.params_id): metric for metric in metrics}
    table = counts.bit_counts
    parts = (table[:, :first], table[:, first : first + second], table[:, first + second :])
    one, two, pairs = (tuple(map(tuple, part.tolist())) for part in parts)
    return AssociationAggregate(
        association=CountedAssociation.from_dict(newest.definition["association"], by_version),
        reports_per_cohort=tuple(counts.reports_per_cohort.tolist()),
        bit_counts=(one, two),
        pair_counts=pairs,
        first_day=date.fromisoformat(str(entries[0].first_day)),
        last_day=date.fromisoformat(str(newest.last_day)),
    )


def reduce_parts(
    entries: Sequence[ArchivedPart], tasks: Sequence[SpanTask], results: Results, advance: Advance
) -> PartCounts:
    """Add up the counts of all tasks. Raises ArchiveDamagedError if the sums of a part differ
    from its entry."""
    by_name = {entry.name: entry for entry in entries}
    left = Counter(task.part for task in tasks)
    waiting = set(tasks)
    total = no_counts(*entries[0].shape)
    sums: dict[str, PartCounts] = {}
    for task, counts in results:
        if task not in waiting:
            continue  # tried again, and counted already
        waiting.remove(task)
        part = task.part
        sums[part] = sums[part].plus(counts) if part in sums else counts
        left[part] -= 1
        advance(int(counts.reports_per_cohort.sum()))
        if not left[part]:
            check_digest(by_name[part], sums[part])
            total = total.plus(sums.pop(part))
    if waiting:
        raise ArchiveDamagedError(f"{len(waiting)} of {len(tasks)} tasks gave no counts")
    return total


def _version(store: Store, key: ArchiveKey, wanted: Wanted) -> list[ArchivedPart]:
    """The entries of the one version that is asked for."""
    every = list(read_entries(store, key, metric_folder(wanted.metric)))
    versions = sorted({entry.params_id for entry in every})
    if not versions:
        names = sorted({entry.metric for entry in read_entries(store, key)})
        held = f"it holds {', '.join(names)}" if names else "it holds nothing"
        raise NotArchivedError(f"the archive has no reports of metric {wanted.metric!a}; {held}")
    if wanted.params_id is None and len(versions) > 1:
        raise NotArchivedError(
            f"{wanted.metric!a} is there in {len(versions)} versions, whose counts cannot be "
            f"added; name one with --params-id: {', '.join(versions)}"
        )
    found = [entry for entry in every if entry.params_id == (wanted.params_id or versions[0])]
    if not found:
        raise NotArchivedError(
            f"{wanted.metric!a} has no params_id {wanted.params_id!a} here; it has "
            f"{', '.join(versions)}"
        )
    return found


def _undated(entries: list[ArchivedPart], wanted: Wanted, today: date) -> list[ArchivedPart]:
    """Imports without days can only be taken together."""
    if wanted.first or wanted.last:
        raise NotArchivedError(f"{wanted.metric!a} was imported without days; ask for all of it")
    if any(entry.first_day is not None or entry.params != entries[0].params for entry in entries):
        raise NotArchivedError(f"the parts of {wanted.metric!a} do not belong together")
    _refuse_gone(entries, today)
    return entries


def _gone(entry: ArchivedPart, today: date) -> bool:
    return entry.expired or entry.is_due(today)


def _refuse_gone(entries: Iterable[ArchivedPart], today: date) -> None:
    for entry in entries:
        if _gone(entry, today):
            raise NotArchivedError(
                f"{entry.metric!a}: the reports of {_days(entry)} were kept until "
                f"{entry.keep_until}; ask for later days"
            )


def _refuse_cuts(entries: Iterable[ArchivedPart], first: str, last: str, metric: str) -> None:
    """The collector's rule: a window takes a block whole or not at all."""
    for entry in entries:
        if str(entry.first_day) < first or last < str(entry.last_day):
            raise NotArchivedError(
                f"metric {metric!a}: days {_days(entry)} were merged, because a day had too few "
                "reports in all or in a cohort; a window takes all of them or none"
            )


def _refuse_holes(entries: Sequence[ArchivedPart]) -> None:
    for before, after in pairwise(entries):
        expected = date.fromisoformat(str(before.last_day)) + timedelta(days=1)
        if str(after.first_day) != expected.isoformat():
            raise NotArchivedError(
                f"{after.metric!a}: days {expected} to the day before {after.first_day} are not in "
                "the archive; ask for the days before or after them"
            )


def _date(text: str | None) -> date | None:
    return None if text is None else date.fromisoformat(text)


def _days(entry: ArchivedPart) -> str:
    if entry.first_day is None:
        return "an import"
    return f"{entry.first_day} to {entry.last_day}"


def _there(live: Sequence[ArchivedPart]) -> str:
    return f"the archive has {live[0].first_day} to {live[-1].last_day}"
