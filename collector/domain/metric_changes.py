"""Functions to declare, change and retire metrics; weaker privacy needs an explicit option."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from collector.domain.registry import declared_name
from collector.errors import MetricChangeError
from collector.store.batches import prolong_batches
from collector.store.registry import (
    MetricVersionRow,
    add_series,
    current_version,
    load_frontiers,
    load_versions,
    save_version,
    start_frontier,
    touch_state,
)
from rappor_core.metrics.metric import Metric
from rappor_server.errors import NotFoundError

MAX_COUNTERS = 1 << 24  # the maximum num_bits * num_cohorts per series: 64 MB of counters per day


@dataclass(frozen=True, slots=True)
class Push:
    """The result of a push, with the names of metrics."""

    added: list[str]
    changed: list[str]
    weakened: list[str]  # `name: what` for each weakening that was requested
    still_retired: list[str]  # retired metrics that remain retired without `revive`


def push_metrics(
    connection: Connection,
    metrics: Sequence[Metric],
    today: int,
    *,
    weaken: bool = False,
    revive: bool = False,
) -> Push:
    """Declare new metrics, or new versions of metrics.

    An identical metric is unchanged; a version that is pushed again becomes the current version. A
    retired version remains retired unless `revive` is given, and so does every version of a
    completely retired metric. Raises MetricChangeError if a change needs `weaken`.
    """
    by_name: dict[str, list[MetricVersionRow]] = {}
    for row in load_versions(connection):
        by_name.setdefault(row.name, []).append(row)
    push = Push([], [], [], [])
    for metric in metrics:
        versions = by_name.get(metric.name, [])
        same = [row for row in versions if row.params_id == metric.params_id]
        of_all = bool(versions) and all(row.retired for row in versions)
        if not revive and (of_all or any(row.retired for row in same)):
            push.still_retired.append(metric.name)
            continue
        row = current_version(metric, versions)
        if versions and versions[-1] == row:
            continue
        for what in _weakenings(metric, versions):
            push.weakened.append(f"{metric.name}: {what}")
        (push.changed if versions else push.added).append(metric.name)
        size = metric.params.num_bits * metric.params.num_cohorts
        if size > MAX_COUNTERS:
            raise MetricChangeError(
                f"metric {metric.name!a}: num_bits * num_cohorts = {size} counters for each day; "
                f"{MAX_COUNTERS} are taken"
            )
        for old in same:  # days may stay open longer, so batches must be remembered longer
            longer = metric.accept_days - int(json.loads(old.definition)["accept_days"])
            if longer > 0:
                prolong_batches(connection, longer)
        _save(connection, metric, row, today)
    if push.weakened and not weaken:
        raise MetricChangeError(
            f"this weakens privacy: {'; '.join(push.weakened)}; push with --weaken if intended",
            weakened=push.weakened,
        )
    if push.added or push.changed:
        touch_state(connection)
    return push


def change_state(
    connection: Connection, act: str, name: str, params_id: str | None = None, **state: Any
) -> list[str]:
    """Change whether a metric (with all its sub-metrics), or one of its versions, accepts reports.

    Collected reports are still served.

    Args:
        connection: A connection in an exclusive transaction.
        act: The action, for messages.
        name: The name of a metric or a sub-metric.
        params_id: The version; None for all versions.
        state: `retired` permanently, or `paused`, so that devices stop recording it for a day.

    Raises:
        NotFoundError: There is no such metric or version.
    """
    rows = [
        row
        for row in load_versions(connection)
        if name in (row.name, declared_name(row.name)) and params_id in (None, row.params_id)
    ]
    if not rows:
        version = "" if params_id is None else f" with params_id {params_id!a}"
        raise NotFoundError(
            f"there is no metric {name!a}{version} to {act}; see rappor metrics list"
        )
    for row in rows:
        save_version(connection, replace(row, **state))
    touch_state(connection)
    return [row.params_id for row in rows]


def _save(connection: Connection, metric: Metric, row: MetricVersionRow, today: int) -> None:
    save_version(connection, row)
    root = declared_name(metric.name)
    add_series(connection, metric.name, metric.params_id, root)
    if root not in load_frontiers(connection):
        start_frontier(connection, root, today - metric.accept_days - 1)


def _weakenings(metric: Metric, versions: list[MetricVersionRow]) -> Iterator[str]:
    """Yield, as text, each change that weakens privacy, such as a larger epsilon.

    `metric` is compared with the current version, and with earlier declarations of its params_id.
    """
    compared = [row for row in versions[:-1] if row.params_id == metric.params_id] + versions[-1:]
    changes = (_weaker(metric, Metric.from_dict(json.loads(row.definition))) for row in compared)
    yield from dict.fromkeys(what for change in changes for what in change)


def _weaker(metric: Metric, old: Metric) -> Iterator[str]:
    """Yield, as text, each property in which `metric` protects less than `old`."""
    growing = (
        ("epsilon_one", old.params.epsilon_one, metric.params.epsilon_one),
        ("epsilon_infinity", old.params.epsilon_infinity, metric.params.epsilon_infinity),
        ("epsilon for life", _for_life(old), _for_life(metric)),
        ("max_memoized_values", old.max_memoized_values, metric.max_memoized_values),
        ("max_reports", _cap(old), _cap(metric)),
        ("num_cohorts", old.params.num_cohorts, metric.params.num_cohorts),
        ("keep_raw_days", old.keep_raw_days, metric.keep_raw_days),
        ("reports a day", _rate(old), _rate(metric)),
    )
    for name, before, after in growing:
        if after > before * (1 + 1e-9):
            yield f"{name} grows from {before:g} to {after:g}"
    if metric.min_reports < old.min_reports:
        yield f"min_reports falls from {old.min_reports} to {metric.min_reports}"
    if metric.cohort_floor < old.cohort_floor:
        yield f"min_reports_per_cohort falls from {old.cohort_floor} to {metric.cohort_floor}"


def _for_life(metric: Metric) -> float:
    return max(metric.lifetime_epsilon_on(platform) for platform in metric.platforms)


def _cap(metric: Metric) -> float:
    return math.inf if metric.max_reports is None else metric.max_reports


def _rate(metric: Metric) -> float:
    return metric.max_reports_per_period / {"day": 1, "week": 7, "month": 28}[metric.period]
