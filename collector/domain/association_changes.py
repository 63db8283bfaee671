"""Declare and retire associations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from collector.errors import MetricChangeError
from collector.store.registry import add_series, touch_state
from collector.store.versions import (
    ASSOCIATIONS,
    METRICS,
    MetricVersionRow,
    current_version,
    load_versions,
    save_version,
)
from rappor_core.metrics.association import Association
from rappor_core.metrics.metric import Metric


def push_associations(
    connection: Connection,
    associations: Sequence[Association],
    added: Sequence[str],
    *,
    weaken: bool,
    revive: bool,
) -> tuple[list[str], list[str], list[str]]:
    """Declare associations of metrics that are declared already or in the same push.

    added: names of the metrics that were not known before: to link others weakens privacy, as an
    observer of the collector sees from then on which two reports are of one device. Returns the
    names that were added or changed, what was weakened, and those that stay retired. Raises
    MetricChangeError, also where a version of a metric is in another association: the counts of
    three series would show by their differences what none of them shows.
    """
    versions = {(row.name, row.params_id) for row in load_versions(connection, METRICS)}
    known = load_versions(connection, ASSOCIATIONS)
    changed: list[str] = []
    weakened: list[str] = []
    still_retired: list[str] = []
    for one in associations:
        _check_name(one, {name for name, _ in versions})
        mine = [row for row in known if row.name == one.name]
        if not revive and any(row.retired and row.params_id == one.params_id for row in mine):
            still_retired.append(one.name)
            continue
        if any(key not in versions for key in one.key):  # a metric that stays retired
            still_retired.append(one.name)
            continue
        row = current_version(one, mine)
        if row in mine:
            continue
        if all(old.params_id != one.params_id for old in mine):
            _check_free(one, known)
            if any(name not in added for name in one.of):
                weakened.append(f"{one.name}: links reports of {' and '.join(one.of)}")
        weakened += [why for old in mine for why in _longer(one, json.loads(old.definition))]
        changed.append(one.name)
        save_version(connection, ASSOCIATIONS, row)
        add_series(connection, one.name, one.params_id, one.name)
    if weakened and not weaken:
        raise MetricChangeError(
            f"this weakens privacy: {'; '.join(weakened)}; push with --weaken if it is meant",
            weakened=weakened,
        )
    if changed:
        touch_state(connection)
    return changed, weakened, still_retired


def refuse_taken_names(connection: Connection, metrics: Sequence[Metric]) -> None:
    """Refuse metrics with the name of an association. Raises MetricChangeError."""
    taken = {row.name for row in load_versions(connection, ASSOCIATIONS)}
    for metric in metrics:
        if metric.base_name in taken:
            raise MetricChangeError(f"{metric.base_name!a} is the name of an association here")


def retire_association(connection: Connection, name: str, params_id: str | None) -> list[str]:
    """Count linked reports no more; the metrics are collected as before. Returns the params_ids.

    Empty where no association has this name.
    """
    rows = [
        row
        for row in load_versions(connection, ASSOCIATIONS)
        if row.name == name and params_id in (None, row.params_id)
    ]
    for row in rows:
        save_version(connection, ASSOCIATIONS, replace(row, retired=True))
    if rows:
        touch_state(connection)
    return [row.params_id for row in rows]


def _longer(one: Association, old: dict[str, Any]) -> list[str]:
    """The finding that linked reports of one version are kept longer than they were."""
    before = old.get("keep_raw_days", 0)
    same = old["params_ids"] == [metric.params_id for metric in one.metrics]
    if not same or one.keep_raw_days <= before:
        return []
    return [f"{one.name}: keep_raw_days from {before} to {one.keep_raw_days}"]


def _check_name(one: Association, metrics: set[str]) -> None:
    if any(name.partition("/")[0] == one.name for name in metrics):
        raise MetricChangeError(f"association {one.name!a} has the name of a metric")


def _check_free(one: Association, known: Sequence[MetricVersionRow]) -> None:
    for row in known:
        other = json.loads(row.definition)
        both = set(zip(other["of"], other["params_ids"], strict=True)) & set(one.key)
        for name, _ in both:
            raise MetricChangeError(
                f"association {one.name!a}: this version of metric {name!a} was declared in "
                f"association {row.name!a}, version {row.params_id}; declare the metric under a "
                "new name, or with new parameters"
            )
