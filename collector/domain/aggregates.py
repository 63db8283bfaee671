"""Read aggregates and totals of metrics."""

from __future__ import annotations

from collections import defaultdict
from datetime import date
from typing import Any

from sqlalchemy import Connection

from collector.domain.disclosure import blocks_of_window, waiting_days
from collector.domain.growth import find_growth
from collector.domain.registry import LinkedEntry, RegisteredSeries, Registry, load_registry
from collector.store.bit_counters import counts
from collector.store.block_rows import BlockRow, load_blocks, load_possible
from collector.store.blocks import accepted_totals, sum_blocks
from rappor_core.aggregate import Aggregate
from rappor_core.association_aggregate import AssociationAggregate
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


def read_association(
    connection: Connection,
    name: str,
    *,
    params_id: str | None = None,
    first: date | None = None,
    last: date | None = None,
) -> AssociationAggregate:
    """The counts of the linked reports of a window of closed days, whole blocks only.

    Raises as `read_aggregate`.
    """
    entry = load_registry(connection).current_linked(name, params_id)
    blocks = blocks_of_window(entry, load_blocks(connection, entry.series_id), first, last)
    sums = sum_blocks(connection, [block.id for block in blocks])
    k1, k2 = entry.metric.shape
    none = (0,) * entry.pairs.num_bits
    rows = [
        counts(sums[cohort].lanes, entry.pairs.num_bits) if cohort in sums else none
        for cohort in range(entry.metric.num_cohorts)
    ]
    return AssociationAggregate(
        association=entry.metric,
        reports_per_cohort=tuple(
            sums[cohort].num_reports if cohort in sums else 0 for cohort in range(len(rows))
        ),
        bit_counts=(tuple(row[:k1] for row in rows), tuple(row[k1 : k1 + k2] for row in rows)),
        pair_counts=tuple(row[k1 + k2 :] for row in rows),
        first_day=date_of(blocks[0].first_day),
        last_day=date_of(blocks[-1].last_day),
    )


def list_associations(connection: Connection, today: date) -> list[dict[str, Any]]:
    """List every version of every association: state, linked reports, days served and waiting."""
    registry = load_registry(connection)
    totals = accepted_totals(connection)
    return [
        {
            "name": entry.metric.name,
            "params_id": entry.params_id,
            "state": _linked_state(entry, registry, today),
            "linked": totals.get(entry.series_id, 0),
            **_spans(load_possible(connection, entry.series_id)),
            "definition": entry.metric.to_dict(),
        }
        for entry in registry.linked.values()
    ]


def _spans(blocks: list[BlockRow]) -> dict[str, object]:
    """Days of an association that are served, and those that wait."""
    sealed = [block for block in blocks if block.sealed]
    served = sealed and {
        "first_day": _iso(sealed[0].first_day),
        "last_day": _iso(sealed[-1].last_day),
    }
    waits = bool(blocks) and not blocks[-1].sealed
    return {"served": served or None, "waiting": waiting_days(blocks[-1]) if waits else None}


def _linked_state(entry: LinkedEntry, registry: Registry, today: date) -> str:
    if entry.retired:
        return "retired"
    if entry.metric.expires < today:
        return "expired"
    return "current" if registry.current_linked(entry.metric.name) is entry else "older"


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
