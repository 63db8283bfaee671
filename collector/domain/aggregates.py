"""Read aggregates and totals of metrics."""

from __future__ import annotations

from collections import defaultdict
from datetime import date
from typing import Any

from sqlalchemy import Connection

from collector.domain.disclosure import blocks_of_window, waiting_days
from collector.domain.growth import find_growth
from collector.domain.registry import RegisteredSeries, Registry, load_registry
from collector.store.bit_counters import counts
from collector.store.block_rows import load_blocks, load_possible
from collector.store.blocks import accepted_totals, sum_blocks
from rappor_core.aggregate import Aggregate
from rappor_core.calendar import date_of


def read_aggregate(
    connection: Connection,
    name: str,
    *,
    params_id: str | None = None,
    first: date | None = None,
    last: date | None = None,
) -> Aggregate:
    """The counts of a window of closed days, whole blocks only.

    Raises NotFoundError for an unknown metric or version, NotServedError for a window that is not
    served. The caller has closed what is due.
    """
    entry = load_registry(connection).current(name, params_id)
    blocks = blocks_of_window(entry, load_blocks(connection, entry.series_id), first, last)
    sums = sum_blocks(connection, [block.id for block in blocks])
    params = entry.metric.params
    none = (0,) * params.num_bits
    cohorts = range(params.num_cohorts)
    return Aggregate(
        metric=entry.metric.name,
        params=params,
        params_id=entry.params_id,
        definition=entry.metric.to_dict(),
        first_day=date_of(blocks[0].first_day),
        last_day=date_of(blocks[-1].last_day),
        reports_per_cohort=tuple(sums[c].num_reports if c in sums else 0 for c in cohorts),
        bit_counts=tuple(
            counts(sums[c].lanes, params.num_bits) if c in sums else none for c in cohorts
        ),
    )


def list_metrics(connection: Connection, today: date) -> list[dict[str, Any]]:
    """List every version of every metric: state, totals, days served, waiting and growing.

    `growing` holds the open days with far more reports than usual, as `find_growth` tells them.
    """
    registry = load_registry(connection)
    totals = accepted_totals(connection)
    served: dict[int, dict[str, str]] = {}
    waiting: dict[int, dict[str, object]] = {}
    for block in load_possible(connection):
        if not block.sealed:
            waiting[block.series_id] = waiting_days(block)
        else:
            span = served.setdefault(block.series_id, {"first_day": _iso(block.first_day)})
            span["last_day"] = _iso(block.last_day)
    growing: defaultdict[tuple[str, str], list[dict[str, object]]] = defaultdict(list)
    for one in find_growth(connection, registry):
        told = {"day": one.day, "reports": one.reports, "usual": one.usual}
        growing[one.metric, one.params_id].append(told)
    return [
        {
            "name": entry.metric.name,
            "params_id": entry.params_id,
            "state": _state(entry, registry, today),
            "accepted": totals.get(entry.series_id, 0),
            "closed_through": _iso(entry.closed_through),
            "served": served.get(entry.series_id),
            "waiting": waiting.get(entry.series_id),
            "growing": growing[entry.metric.name, entry.params_id],
            "definition": entry.metric.to_dict(),
        }
        for entry in registry
    ]


def _state(entry: RegisteredSeries, registry: Registry, today: date) -> str:
    if entry.retired:
        return "retired"
    if entry.metric.expires < today:
        return "expired"
    return "current" if registry.current(entry.metric.name) is entry else "older"


def _iso(day: int) -> str:
    return date_of(day).isoformat()
