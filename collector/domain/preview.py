"""Predict what closing a day would do, since it cannot be undone."""

from __future__ import annotations

from sqlalchemy import Connection

from collector.domain.closing import Closed, metrics_to_close
from collector.domain.registry import load_registry
from collector.store.daily import reports_by_day


def would_close(connection: Connection, day: int, today: int, metric: str | None = None) -> Closed:
    """The effect that `close_day` with the same arguments would have. Raises the same errors."""
    registry = load_registry(connection)
    metrics = metrics_to_close(registry, day, today, metric)
    folded = sum(
        1
        for series_id, stated in reports_by_day(connection)
        if stated <= day and registry.by_id[series_id].root in metrics
    )
    return Closed(metrics, folded)
