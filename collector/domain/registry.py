"""The metrics as one process knows them: immutable, and read again when the store has changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from collector.domain.plausibility import WeightRange, weight_range
from collector.errors import NotFoundError
from collector.store.registry import (
    MetricVersionRow,
    SeriesRow,
    load_frontiers,
    load_series,
    load_versions,
    state_version,
)
from rappor_core.metrics.metric import Metric


@dataclass(frozen=True, slots=True)
class RegisteredSeries:
    """A series as reports are checked against it: name, version, and its closed days.

    metric: as declared (of a sub-metric: its own parameters under its own name).
    root: name of the declared metric.  closed_through: last day closed for good.
    patience: how many days after it a day of the root stays open: the largest accept_days of its
    versions, retired ones too. When a version's own reports are refused is its metric's to say.
    position: grows with each version of the name; the highest is the current one.
    num_cohorts, report_bytes: of its parameters.  padding: how far the last byte of a report is
    shifted to show the bits that must be zero.
    """

    metric: Metric
    root: str
    series_id: int
    position: int
    retired: bool
    paused: bool
    closed_through: int
    patience: int
    weights: WeightRange
    num_cohorts: int
    report_bytes: int
    padding: int

    @property
    def params_id(self) -> str:
        """Digest of everything that gives the series' reports their meaning."""
        return self.metric.params_id

    def closes(self, day: int) -> int:
        """The day on which the clock closes an open day."""
        return day + self.patience + 1

    def due_through(self, today: int) -> int:
        """The last day that the clock has closed by today, where nobody closed more."""
        return today - self.patience - 1


class Registry:
    """All series by (name, params_id), and by name. Built once, then only read."""

    def __init__(
        self,
        entries: Mapping[tuple[str, str], RegisteredSeries],
        version: int,
        definitions: Mapping[tuple[str, str], str],
    ) -> None:
        """definitions: the stored text of each entry."""
        self.version = version
        self.entries = entries
        self.definitions = definitions
        self.by_id = {entry.series_id: entry for entry in entries.values()}
        self._names: dict[str, list[RegisteredSeries]] = {}
        for entry in sorted(entries.values(), key=lambda entry: entry.position):
            self._names.setdefault(entry.metric.name, []).append(entry)

    def find(self, name: str, params_id: str) -> RegisteredSeries | None:
        """The series that a report is for, or None."""
        return self.entries.get((name, params_id))

    def knows(self, name: str) -> bool:
        """Whether any version of the name was ever declared."""
        return name in self._names

    def current(self, name: str, params_id: str | None = None) -> RegisteredSeries:
        """The version asked for, or the latest one. Raises NotFoundError that names what is."""
        versions = self._names.get(name)
        if not versions:
            parts = ", ".join(one for one in self._names if one.partition("/")[0] == name)
            there = f"a slot and level of it is: {parts}" if parts else "see GET /v1/metrics"
            raise NotFoundError(f"there is no metric {name!a}; {there}")
        if params_id is None:
            return versions[-1]
        for entry in versions:
            if entry.params_id == params_id:
                return entry
        known = ", ".join(entry.params_id for entry in versions)
        raise NotFoundError(f"metric {name!a} has no params_id {params_id!a}; known are {known}")

    def __iter__(self) -> Iterator[RegisteredSeries]:
        """All series, by name and version."""
        for name in sorted(self._names):
            yield from self._names[name]


def load_registry(connection: Connection, known: Registry | None = None) -> Registry:
    """Read the metrics within a transaction; definitions that have not changed are taken from
    `known`.

    A closing changes days alone, and every writer reads again at its next commit.
    """
    version = state_version(connection)
    closed = load_frontiers(connection)
    series = {(row.name, row.params_id): row for row in load_series(connection)}
    entries: dict[tuple[str, str], RegisteredSeries] = {}
    definitions: dict[tuple[str, str], str] = {}
    rows = load_versions(connection)
    metrics = _metrics(rows, known)
    patience: dict[str, int] = {}
    for (name, _), metric in metrics.items():
        root = declared_name(name)
        patience[root] = max(patience.get(root, 0), metric.accept_days)
    for row in rows:
        key, root = (row.name, row.params_id), declared_name(row.name)
        definitions[key] = row.definition
        before = None if known is None else known.entries.get(key)
        if before is not None and before.metric is metrics[key]:
            entries[key] = _moved(before, row, closed[root], patience[root])
        else:
            entries[key] = _entry(metrics[key], series[key], row, closed[root], patience[root])
    return Registry(entries, version, definitions)


def _metrics(
    rows: Sequence[MetricVersionRow], known: Registry | None
) -> dict[tuple[str, str], Metric]:
    """The metric of each version; one whose definition has not changed is that of `known`."""
    found: dict[tuple[str, str], Metric] = {}
    for row in rows:
        key = (row.name, row.params_id)
        if known is not None and known.definitions.get(key) == row.definition:
            found[key] = known.entries[key].metric
        else:
            found[key] = Metric.from_dict(json.loads(row.definition))
    return found


def _moved(
    entry: RegisteredSeries, row: MetricVersionRow, closed_through: int, patience: int
) -> RegisteredSeries:
    """What may change of a version that is known."""
    return replace(
        entry,
        position=row.position,
        retired=row.retired,
        paused=row.paused,
        closed_through=closed_through,
        patience=patience,
    )


def registry_as_known(connection: Connection, known: Registry | None) -> Registry:
    """The registry `known` if the store has not changed since it was read; otherwise the
    registry as stored now."""
    if known is not None and known.version == state_version(connection):
        return known
    return load_registry(connection, known)


def _entry(
    metric: Metric, series: SeriesRow, row: MetricVersionRow, closed_through: int, patience: int
) -> RegisteredSeries:
    params = metric.params
    return RegisteredSeries(
        metric=metric,
        root=series.metric,
        series_id=series.id,
        position=row.position,
        retired=row.retired,
        paused=row.paused,
        closed_through=closed_through,
        patience=patience,
        weights=weight_range(params),
        num_cohorts=params.num_cohorts,
        report_bytes=params.report_bytes,
        padding=8 - (8 * params.report_bytes - params.num_bits),
    )


def declared_name(name: str) -> str:
    """The name in metrics.toml: the part of a sub-metric's name before the first `/`."""
    return name.partition("/")[0]
