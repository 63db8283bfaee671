"""What closing a day would do, before it is done: it cannot be undone."""

from __future__ import annotations

from sqlalchemy import Connection

from collector.errors import NotFoundError, RequestError
from collector.service.closing import Closed
from collector.service.days import from_number
from collector.service.registry import load_registry
from collector.store.blocks import days_with_reports


def would_close(connection: Connection, day: int, today: int, metric: str | None = None) -> Closed:
    """What `close_day` would answer to the same arguments. Raises the same errors."""
    if day > today:
        raise RequestError(
            f"day {from_number(day)} has not come yet (today is {from_number(today)}, UTC); "
            "only today and earlier days can be closed"
        )
    registry = load_registry(connection)
    closed_through = {
        entry.root: entry.closed_through for entry in registry if metric in (None, entry.root)
    }
    if metric is not None and not closed_through:
        raise NotFoundError(f"there is no metric {metric!a} to close days of")
    closing = {root for root, closed in closed_through.items() if closed < day}
    folded = sum(
        1
        for series_id, stated in days_with_reports(connection)
        if stated <= day and registry.by_id[series_id].root in closing
    )
    return Closed(tuple(sorted(closing)), folded)
