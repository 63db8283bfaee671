"""Deleting parts that are past their retention period, and what a killed export left."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from archive.errors import ArchiveError
from archive.keys import ArchiveKey
from archive.manifest import ENTRIES, REPORTS, read_entry, retire
from archive.store import Store

_ORPHAN_SECONDS = 86_400  # younger ones may belong to an export that runs


@dataclass(frozen=True, slots=True)
class Expired:
    """Numbers of what was deleted. parts, reports: past their retention date. orphans: files that
    no entry named."""

    parts: int
    reports: int
    orphans: int


def expire(
    store: Store,
    key: ArchiveKey,
    today: date,
    *,
    metric: str | None = None,
    before: date | None = None,
) -> Expired:
    """Delete every part whose time is over; with `metric` and `before`, sooner ones too.

    before: parts of `metric` with a first day before it are deleted whatever was promised. The
    entry is marked first, so that a part is never half there; what was marked and not deleted is
    deleted now. Raises ArchiveError for entries that cannot be read, when all else is done.
    """
    parts, reports, kept, damaged = 0, 0, set[str](), list[str]()
    for name in store.list(ENTRIES):
        try:
            entry = read_entry(store, key, name)
        except ArchiveError as error:
            damaged.append(str(error))
            continue
        sooner = before is not None and entry.metric == metric and _begins(entry.first_day, before)
        if not (entry.expired or sooner or entry.is_due(today)):
            kept.add(entry.file)
            continue
        if not entry.expired:
            retire(store, entry, key)
            parts, reports = parts + 1, reports + entry.num_reports
        store.delete(entry.file)
    if damaged:
        raise ArchiveError(f"{len(damaged)} entries could not be read: {damaged[0]}")
    return Expired(parts, reports, _delete_orphans(store, kept))


def _begins(first_day: str | None, before: date) -> bool:
    return first_day is None or first_day < before.isoformat()


def _delete_orphans(store: Store, kept: Iterable[str]) -> int:
    deleted = 0
    for name in set(store.list(REPORTS)) - set(kept):
        changed = store.age(name)
        if changed is not None and time.time() - changed > _ORPHAN_SECONDS:
            store.delete(name)
            deleted += 1
    return deleted
