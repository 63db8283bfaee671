"""Closing days, for good, and merging what is too few.

Days close in order: closing a day closes every earlier day of the same metric with it. A closed
day is folded at once into its series' unsealed block; the block is sealed, and served from then
on, when it holds `min_reports`. Nothing ever unseals, splits or reorders blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sqlalchemy import Connection

from collector.errors import NotFoundError, RequestError
from collector.service.days import from_number
from collector.service.registry import Registry, load_registry
from collector.store.batches import forget_batches
from collector.store.blocks import days_with_reports, delete_unserved, fold_day
from collector.store.raw import delete_raw
from collector.store.registry import advance_frontier, touch_state


@dataclass(frozen=True, slots=True)
class Closed:
    """What a closing did. metrics: those with newly closed days.  folded: days with reports."""

    metrics: tuple[str, ...]
    folded: int


def close_day(connection: Connection, day: int, today: int, metric: str | None = None) -> Closed:
    """Close `day` and all before it, of one metric or of all. Needs the database alone.

    Raises RequestError for a day that has not come, NotFoundError for an unknown metric.
    """
    if day > today:
        raise RequestError(
            f"day {from_number(day)} has not come yet (today is {from_number(today)}, UTC); "
            "only today and earlier days can be closed"
        )
    registry = load_registry(connection)
    roots = {entry.root for entry in registry}
    if metric is not None:
        if metric not in roots:
            raise NotFoundError(f"there is no metric {metric!a} to close days of")
        roots = {metric}
    return _close(connection, registry, roots, lambda _: day)


def close_due(connection: Connection, today: int) -> Closed:
    """Close the days whose time to take reports is over. Needs the database alone."""
    registry = load_registry(connection)
    due = _due(registry, today)
    return _close(connection, registry, due, due.__getitem__)


def anything_due(registry: Registry, today: int) -> bool:
    """Whether `close_due` would close a day."""
    due = _due(registry, today)
    return any(due[entry.root] > entry.closed_through for entry in registry)


def _due(registry: Registry, today: int) -> dict[str, int]:
    """By metric, the last day whose time is over: its most patient version decides."""
    return {root: today - days - 1 for root, days in _patience(registry).items()}


def _patience(registry: Registry) -> dict[str, int]:
    """By metric, how many days its most patient version leaves a day open."""
    patience: dict[str, int] = {}
    for entry in registry:
        patience[entry.root] = max(patience.get(entry.root, 0), entry.metric.accept_days)
    return patience


def discard_unserved(connection: Connection) -> int:
    """After a restore: delete what is not served yet; return how many reports that were.

    Between the backup and the loss those days may have been closed and served, with reports that
    the backup does not hold. Served again from it, they would differ by just those reports.
    """
    discarded = delete_unserved(connection)
    touch_state(connection)
    return discarded


def clean_up(connection: Connection, today: int) -> None:
    """Delete what is no longer needed: batches whose days are closed, raw reports out of time.

    A batch expires by the versions of its reports, a day is closed for good by the most patient
    one; until then a longer accept_days, or a clock that is behind, may open the day again.
    """
    registry = load_registry(connection)
    patience = _patience(registry)
    waits = (patience[entry.root] - entry.metric.accept_days for entry in registry)
    forget_batches(connection, today - max(waits, default=0))
    for entry in registry:
        delete_raw(connection, entry.series_id, today - entry.metric.keep_raw_days)


def _close(
    connection: Connection,
    registry: Registry,
    roots: Iterable[str],
    target: Callable[[str], int],
) -> Closed:
    closed_through = {entry.root: entry.closed_through for entry in registry}
    changed = sorted(root for root in roots if target(root) > closed_through[root])
    for root in changed:
        closed_through[root] = target(root)
        advance_frontier(connection, root, target(root))
    folded = _fold(connection, registry, closed_through)
    if changed:
        touch_state(connection)
    return Closed(tuple(changed), folded)


def _fold(connection: Connection, registry: Registry, closed_through: dict[str, int]) -> int:
    folded = 0
    for series_id, day in days_with_reports(connection):
        entry = registry.by_id[series_id]
        if day <= closed_through[entry.root]:
            fold_day(connection, series_id, day, entry.metric.min_reports)
            folded += 1
    return folded
