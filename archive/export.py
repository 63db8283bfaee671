"""Moving raw reports from a collector into an archive: each once, whatever is killed when.

A sealed block of the collector never changes, so it is what is moved: its file is written, read
back and held against the collector's own counters, its entry is committed, and only then are its
rows deleted. A kill before the commit leaves a file that counts nowhere, and the next export
writes another; a kill after it leaves rows, which the next export deletes when the part has been
verified. Of two exports at once one commits.

A block that is damaged, in the database or in the archive, is set aside with the reason: it stays
where it is, and the others move.

The collector is reached through `ExportSource`, which it fulfils without knowing of archives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Protocol, TypeVar

import numpy as np

from archive.bit_sums import Bytes
from archive.errors import ArchiveDamagedError, ArchiveError, ArchiveKeyError
from archive.keys import ArchiveKey
from archive.layouts import declared
from archive.manifest import (
    ArchivedPart,
    digest_of,
    entry_name,
    folder_of,
    keep_until,
    read_entries,
    touches,
)
from archive.parts import PartLabel, verify_part, write_part
from archive.store import Store
from archive.tasks import PartCounts
from rappor_core.errors import RapporError
from rappor_core.metrics.association import Association
from rappor_core.metrics.metric import Metric

MOVED, EARLIER, INCOMPLETE, DUE, OVERLAPS, ELSEWHERE, SET_ASIDE = (
    "moved",
    "moved earlier",
    "incomplete",
    "out of time",
    "overlaps",
    "another export was first",
    "set aside",
)


class Block(Protocol):
    """A sealed block of a metric, or of an association, of which raw reports are kept.

    first_day, last_day: inclusive; None where damage hides them.  num_raw: reports that are kept.
    reports_per_cohort, bit_counts: its counters, (m,) and (m, k); of an association k counts the
    bits of both metrics and all pairs of them.  damage: why these cannot be read, else "".
    """

    @property
    def metric(self) -> Metric | Association:
        """The metric as it is declared, or the association; reports of an association are pairs
        of linked reports."""

    @property
    def first_day(self) -> date | None:
        """First day of the block; None where it has no days."""

    @property
    def last_day(self) -> date | None:
        """Last day of the block; None where it has no days."""

    @property
    def num_raw(self) -> int:
        """How many raw reports of the block are kept."""

    @property
    def reports_per_cohort(self) -> Sequence[int]:
        """The block's counted reports of each cohort, (m,)."""

    @property
    def bit_counts(self) -> Sequence[Sequence[int]]:
        """The block's counts of each bit, (m, k)."""

    @property
    def damage(self) -> str:
        """The reason why the block's raw reports cannot be read; "" if they can."""


B = TypeVar("B", bound=Block)


class ExportSource(Protocol[B]):
    """The interface through which raw reports are read and deleted."""

    def blocks(self) -> Iterable[B]:
        """Yield the sealed blocks of which raw reports are kept."""

    def reports(self, block: B, cohort: int) -> Iterator[bytes]:
        """Yield pieces of the reports of a cohort: whole reports of `report_bytes`, end to end."""

    def forget(self, block: B) -> int:
        """Delete the raw reports of a block; return how many."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of exporting a block, as one of the words above.

    first_day, last_day: None where damage hides them.  num_reports: moved or left.  reason: why it
    was set aside, else "".
    """

    metric: str
    first_day: date | None
    last_day: date | None
    num_reports: int
    what: str
    reason: str = ""


def export(
    source: ExportSource[B], store: Store, key: ArchiveKey, today: date
) -> Iterator[Outcome]:
    """Move every block that is whole and in time; yield what became of each.

    A block is left where it is when rows of it are missing (they were kept only from some day on,
    or are out of time): sums of a part of it, beside the collector's of all, would tell the rest.

    Raises ArchiveKeyError where the key is not the archive's, OSError of the archive's disk.
    """
    for block in source.blocks():
        what, reason = SET_ASIDE, ""
        try:
            what = _move(source, block, store, key, today)
        except ArchiveKeyError:
            raise  # no other block would be written either
        except RapporError as error:  # of the archive, or of the database, where it is damaged
            reason = str(error)
        name, days = block.metric.name, (block.first_day, block.last_day)
        yield Outcome(name, *days, block.num_raw, what, reason)


def _move(source: ExportSource[B], block: B, store: Store, key: ArchiveKey, today: date) -> str:
    metric, first_day, last_day = block.metric, block.first_day, block.last_day
    if block.damage or first_day is None or last_day is None:
        raise ArchiveDamagedError(block.damage)
    name = entry_name(metric.name, metric.params_id, first_day.isoformat())
    known = list(read_entries(store, key, folder_of(metric.name, metric.params_id)))
    same = [entry for entry in known if entry.name == name]
    if same:
        if same[0].last_day != last_day.isoformat():
            return OVERLAPS
        return _finish(source, block, same[0], store, key)
    if any(entry.first_day is None for entry in known):
        raise ArchiveError(
            f"this archive holds imported reports of {metric.name!a} without days; export into "
            "another one"
        )
    if any(touches(entry, first_day, last_day) for entry in known):
        return OVERLAPS
    until = keep_until(first_day, metric.keep_raw_days)
    if today > until:
        return DUE
    if block.num_raw < sum(block.reports_per_cohort):
        return INCOMPLETE
    if block.num_raw > sum(block.reports_per_cohort):
        raise _other_reports(block)
    definition, layout = declared(metric)
    label = PartLabel(
        metric=metric.name,
        params_id=metric.params_id,
        definition=definition,
        params=layout,
        first_day=first_day,
        last_day=last_day,
        keep_until=until,
    )
    try:
        write_part(store, key, label, _pieces(source, block), lambda sums: _check(block, sums))
    except FileExistsError:
        return ELSEWHERE
    source.forget(block)
    return MOVED


def _finish(
    source: ExportSource[B], block: B, entry: ArchivedPart, store: Store, key: ArchiveKey
) -> str:
    """The block is in the archive, and its rows are still there: delete them.

    Raises ArchiveDamagedError where the part is not whole: the rows are what is left then.
    """
    if entry.counts_digest != _digest(block):
        return OVERLAPS
    if not entry.expired:
        verify_part(store, key, entry)
    source.forget(block)
    return EARLIER


def _pieces(source: ExportSource[B], block: B) -> Iterator[tuple[int, Bytes]]:
    _, layout = declared(block.metric)
    width = layout.report_bytes
    for cohort in range(layout.num_cohorts):
        for piece in source.reports(block, cohort):
            if len(piece) % width:
                raise _other_reports(block)
            yield cohort, np.frombuffer(piece, dtype=np.uint8).reshape(-1, width)


def _check(block: Block, sums: PartCounts) -> None:
    """What was read back must give the collector's counters, bit for bit."""
    if digest_of(sums.reports_per_cohort, sums.bit_counts) != _digest(block):
        raise _other_reports(block)


def _other_reports(block: Block) -> ArchiveDamagedError:
    return ArchiveDamagedError(
        f"metric {block.metric.name!a}, {block.first_day} to {block.last_day}: the raw reports "
        "do not give the collector's counters; nothing was moved"
    )


def _digest(block: Block) -> str:
    return digest_of(np.array(block.reports_per_cohort), np.array(block.bit_counts))
