"""Statements on the versions of metrics and of associations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Table, insert, select, update

from collector.store import models
from rappor_core.metrics.association import Association
from rappor_core.metrics.metric import Metric

METRICS, ASSOCIATIONS = models.metrics, models.associations  # each has a table of versions


@dataclass(frozen=True, slots=True)
class MetricVersionRow:
    """A row of one version of a metric or an association.

    definition: JSON text.  position: grows within a name.
    """

    name: str
    params_id: str
    position: int
    definition: str
    retired: bool


def current_version(
    one: Metric | Association, versions: Sequence[MetricVersionRow]
) -> MetricVersionRow:
    """The row that makes this the current version of its name, among `versions`."""
    top = versions[-1].position if versions else 0
    is_top = bool(versions) and versions[-1].params_id == one.params_id
    return MetricVersionRow(
        name=one.name,
        params_id=one.params_id,
        position=top if is_top else top + 1,
        definition=json.dumps(one.to_dict(), sort_keys=True),
        retired=False,
    )


def load_versions(connection: Connection, table: Table) -> list[MetricVersionRow]:
    """Load all versions of a table, oldest first within a name."""
    columns = [table.c[name] for name in MetricVersionRow.__slots__]
    rows = connection.execute(select(*columns).order_by(table.c.name, table.c.position))
    return [MetricVersionRow(*row) for row in rows]


def save_version(connection: Connection, table: Table, row: MetricVersionRow) -> None:
    """Insert a version, or replace its definition, position and state."""
    values = {name: getattr(row, name) for name in MetricVersionRow.__slots__}
    same = (table.c.name == row.name, table.c.params_id == row.params_id)
    if not connection.execute(update(table).where(*same).values(values)).rowcount:
        connection.execute(insert(table).values(values))
