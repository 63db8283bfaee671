"""Days on which cohorts sent linked reports. Their counts stand in the tables of counters."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, insert, select

from collector.store.models import linked_days


def remember_days(connection: Connection, block_id: int, day: int, cohorts: Sequence[int]) -> None:
    """Record in which cohorts a day of an unsealed block has linked reports."""
    rows = [{"block_id": block_id, "cohort": cohort, "day": day} for cohort in cohorts]
    if rows:
        connection.execute(insert(linked_days), rows)


def days_of_cohorts(connection: Connection, block_id: int) -> dict[int, set[int]]:
    """The days of a block on which each cohort had linked reports."""
    columns = (linked_days.c.cohort, linked_days.c.day)
    found: dict[int, set[int]] = {}
    where = linked_days.c.block_id == block_id
    for cohort, day in connection.execute(select(*columns).where(where)):
        found.setdefault(cohort, set()).add(day)
    return found


def forget_days(connection: Connection, block_id: int) -> None:
    """Delete the record of days by cohort of a block that is sealed."""
    connection.execute(delete(linked_days).where(linked_days.c.block_id == block_id))
