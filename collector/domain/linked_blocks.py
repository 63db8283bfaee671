"""Decide when a block of an association may be served beside the blocks of its two metrics.

Linked reports are counted with their metrics, too. So a metric's answer less the association's is
the metric's other reports, where the answer covers the days of the linked ones, and that must show
no lone report either. A block of an association ends only where a block of each metric ends; then
every such difference is a sum of whole blocks of the metric, and of what the linked reports of a
cohort leave in the blocks that hold their days. That is none, or the floor.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from sqlalchemy import Connection

from collector.domain.registry import LinkedEntry, RegisteredSeries
from collector.store.associations import days_of_cohorts, forget_days, remember_days
from collector.store.block_rows import BlockRow, load_blocks
from collector.store.blocks import FoldedDay, cohort_sizes


def seals(connection: Connection, linked: LinkedEntry, folded: FoldedDay, is_enough: bool) -> bool:
    """Whether the association's block that has just taken a day may be sealed.

    is_enough: whether its own reports are. The days of both metrics are folded.
    """
    remember_days(connection, folded.block_id, folded.day, folded.cohorts)
    if not is_enough:
        return False
    days = days_of_cohorts(connection, folded.block_id)
    floor = linked.metric.cohort_floor
    if not all(
        _leaves_enough(connection, entry, folded, days, floor)
        for entry in (linked.first, linked.second)
    ):
        return False
    forget_days(connection, folded.block_id)
    return True


def _leaves_enough(
    connection: Connection,
    entry: RegisteredSeries,
    folded: FoldedDay,
    days: Mapping[int, Set[int]],
    floor: int,
) -> bool:
    blocks = [
        block
        for block in load_blocks(connection, entry.series_id)
        if block.sealed and folded.first_day <= block.last_day <= folded.day
    ]
    if not blocks or blocks[-1].last_day != folded.day:
        return False
    sizes, linked_on = folded.sizes, days
    if entry.num_cohorts == 1:
        sizes = {0: sum(sizes.values())}
        linked_on = {0: {day for some in days.values() for day in some}}
    held = cohort_sizes(connection, [block.id for block in blocks])
    for cohort, linked in sizes.items():
        with_days = [block.id for block in blocks if _holds(block, linked_on[cohort])]
        left = sum(held.get((block_id, cohort), 0) for block_id in with_days) - linked
        if not (left == 0 or left >= floor):
            return False
    return True


def _holds(block: BlockRow, days: Set[int]) -> bool:
    return any(block.first_day <= day <= block.last_day for day in days)
