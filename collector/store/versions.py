"""Statements on the versions of metrics."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, insert, select, update

from collector.store.models import metrics
from rappor_core.metrics.metric import Metric


@dataclass(frozen=True, slots=True)
class MetricVersionRow:
    """A row of one version of a metric.

    definition: JSON text.  position: grows within a name.
    """

    name: str
    params_id: str
    position: int
    definition: str
    retired: bool
    paused: bool = False


def current_version(metric: Metric, versions: Sequence[MetricVersionRow]) -> MetricVersionRow:
    """The row that makes this the current version of its name, among `versions`."""
    top = versions[-1].position if versions else 0
    is_top = bool(versions) and versions[-1].params_id == metric.params_id
    return MetricVersionRow(
        name=metric.name,
        params_id=metric.params_id,
        position=top if is_top else top + 1,
        definition=json.dumps(metric.to_dict(), sort_keys=True),
        retired=False,
        paused=any(row.paused for row in versions if row.params_id == metric.params_id),
    )


def load_versions(connection: Connection) -> list[MetricVersionRow]:
    """Load all versions of all metrics, oldest first within a name."""
    columns = [metrics.c[name] for name in MetricVersionRow.__slots__]
    rows = connection.execute(select(*columns).order_by(metrics.c.name, metrics.c.position))
    return [MetricVersionRow(*row) for row in rows]


def save_version(connection: Connection, row: MetricVersionRow) -> None:
    """Insert a version, or replace its definition, position and state."""
    values = {name: getattr(row, name) for name in MetricVersionRow.__slots__}
    same = (metrics.c.name == row.name, metrics.c.params_id == row.params_id)
    if not connection.execute(update(metrics).where(*same).values(values)).rowcount:
        connection.execute(insert(metrics).values(values))
