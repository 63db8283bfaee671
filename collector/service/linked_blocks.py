"""When a block of an association may be served beside the blocks of its two metrics.

Linked reports are counted with their metrics, too. So a metric's answer less the association's is
the metric's other reports, and that must show no lone report either. A block of an association ends
only where a block of each metric ends; then every such difference is a sum of whole blocks and of
what a block of the association leaves of its metrics. That is none, or the floor, in each cohort.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from sqlalchemy import Connection

from collector.service.registry import Entry, LinkedEntry
from collector.store.blocks import load_blocks, sum_blocks


def may_seal(
    connection: Connection, linked: LinkedEntry, first: int, last: int, sizes: Mapping[int, int]
) -> bool:
    """Whether a block of days `first` to `last` with reports by cohort may be served.

    The days of both metrics are folded.
    """
    return all(
        _leaves_enough(connection, entry, linked.metric.cohort_floor, (first, last), sizes)
        for entry in (linked.first, linked.second)
    )


def _leaves_enough(
    connection: Connection,
    entry: Entry,
    floor: int,
    days: tuple[int, int],
    sizes: Mapping[int, int],
) -> bool:
    blocks = [
        block
        for block in load_blocks(connection, entry.series_id)
        if block.sealed and days[0] <= block.last_day <= days[1]
    ]
    if not blocks or blocks[-1].last_day != days[1]:
        return False
    linked: Counter[int] = Counter()
    for cohort, reports in sizes.items():
        linked[cohort if entry.num_cohorts > 1 else 0] += reports
    held = sum_blocks(connection, [block.id for block in blocks])
    rest = [one.num_reports - linked[cohort] for cohort, one in held.items()]
    return all(left == 0 or left >= floor for left in rest)
