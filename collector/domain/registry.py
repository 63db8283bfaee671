"""The metrics in one process's memory, immutable, and read again when the store has changed."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from sqlalchemy import Connection

from collector.store.registry import load_frontiers, load_series, load_versions, state_version
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from rappor_server.errors import NotFoundError

TAIL = 1e-9  # the fraction of honest reports beyond either end of the weight range


@dataclass(frozen=True, slots=True)
class WeightRange:
    """The range of the number of set bits in an honest report, ends included."""

    lowest: int
    highest: int
    certain: bool = False  # whether weights outside are impossible, not just rare: always rejected


@lru_cache(maxsize=1024)  # each read of a registry calls this for every version
def weight_range(params: RapporParams) -> WeightRange:
    """Return the range for the number of set bits in an honest report, to reject crude fakes.

    Given B, the k bits of a report are independent, with P(S=1) = q_star where B is set and p_star
    elsewhere. So the weight (the number of set bits) has mean s*q_star + (k-s)*p_star if s bits of
    B are set. With m the mean of a bit, the probability of a weight of w or more above the mean (or
    of w or fewer below it) is at most exp(-k * D(w/k || m)), D the relative entropy of two coins
    (Hoeffding 1963, theorem 1; it holds for coins that differ). Weights for which this is below
    TAIL are rejected: an honest report is rejected with probability at most 2 * TAIL, regardless of
    the parameters. For wide filters, the range is 6.4 standard deviations on either side. It is the
    widest for any number of bits that a value can set; if it covers all weights, none is rejected.
    """
    if params.scheme.symbols:  # exactly one of k symbols is reported
        return WeightRange(1, 1, certain=True)
    fewest, most = params.scheme.set_bits(params)
    ranges = [_range(params, bits_set) for bits_set in {fewest, most}]
    lowest = max(0, min(low for low, _ in ranges))
    highest = min(params.num_bits, max(high for _, high in ranges))
    return WeightRange(lowest, highest)


def _range(params: RapporParams, bits_set: int) -> tuple[int, int]:
    """Return the minimum and maximum plausible weight of a report if B has `bits_set` ones."""
    num_bits = params.num_bits
    mean = (bits_set * params.q_star + (num_bits - bits_set) * params.p_star) / num_bits
    middle = min(num_bits, max(0, round(mean * num_bits)))
    lowest, highest = middle, middle
    while lowest > 0 and not _is_rare(lowest - 1, num_bits, mean):
        lowest -= 1
    while highest < num_bits and not _is_rare(highest + 1, num_bits, mean):
        highest += 1
    return lowest, highest


def _is_rare(weight: int, num_bits: int, mean: float) -> bool:
    share = weight / num_bits
    divergence = _term(share, mean) + _term(1 - share, 1 - mean)
    return num_bits * divergence > -math.log(TAIL)


def _term(share: float, mean: float) -> float:
    if share == 0:
        return 0.0
    return math.inf if mean <= 0 else share * math.log(share / mean)


@dataclass(frozen=True, slots=True)
class RegisteredSeries:
    """A series for checking reports: its name, version and closed days."""

    metric: Metric  # as declared (a sub-metric has its own parameters under its own name)
    root: str  # the name of the declared metric
    series_id: int
    retired: bool
    paused: bool
    closed_through: int  # the last day that is closed permanently
    # How many days a day of the root metric stays open: the maximum accept_days over all versions,
    # including retired ones. A version's own accept_days decides when its reports are rejected.
    patience: int
    weights: WeightRange

    @property
    def params_id(self) -> str:
        """Return the digest of everything that defines what the series' reports mean."""
        return self.metric.params_id

    def closes(self, day: int) -> int:
        """Return the day on which the clock will close an open day."""
        return day + self.patience + 1

    def due_through(self, today: int) -> int:
        """Return the last day that is due to be closed by the clock today."""
        return today - self.patience - 1


class Registry:
    """All series by (name, params_id), and by name. Immutable once built."""

    def __init__(self, entries: Mapping[tuple[str, str], RegisteredSeries], version: int) -> None:
        """Build the registry from ordered versions; for `version` see `state_version`."""
        self.version = version
        self.entries = entries
        self.by_id = {entry.series_id: entry for entry in entries.values()}
        self._names: dict[str, list[RegisteredSeries]] = {}
        for entry in entries.values():
            self._names.setdefault(entry.metric.name, []).append(entry)

    def find(self, name: str, params_id: str) -> RegisteredSeries | None:
        """Return the series of a report, or None."""
        return self.entries.get((name, params_id))

    def knows(self, name: str) -> bool:
        """Return whether any version of the name was ever declared."""
        return name in self._names

    def current(self, name: str, params_id: str | None = None) -> RegisteredSeries:
        """Return the requested version, or the latest version.

        Raises NotFoundError, which lists the known versions, if it is unknown.
        """
        versions = self._names.get(name)
        if not versions:
            parts = ", ".join(part for part in self._names if part.partition("/")[0] == name)
            there = f"a slot and level of it is: {parts}" if parts else "see rappor metrics list"
            raise NotFoundError(f"there is no metric {name!a}; {there}")
        entry = versions[-1] if params_id is None else self.find(name, params_id)
        if entry is not None:
            return entry
        known = ", ".join(entry.params_id for entry in versions)
        raise NotFoundError(f"metric {name!a} has no params_id {params_id!a}; known are {known}")

    def __iter__(self) -> Iterator[RegisteredSeries]:
        for name in sorted(self._names):
            yield from self._names[name]


@lru_cache(maxsize=1 << 16)
def _metric(definition: str) -> Metric:
    return Metric.from_dict(json.loads(definition))


def load_registry(connection: Connection, cached: Registry | None = None) -> Registry:
    """Read the metrics within a transaction; return `cached` if nothing has changed since."""
    version = state_version(connection)
    if cached is not None and cached.version == version:
        return cached
    closed = load_frontiers(connection)
    series = load_series(connection)
    rows = [(row, _metric(row.definition)) for row in load_versions(connection)]
    patience: dict[str, int] = {}
    for row, metric in rows:
        root = declared_name(row.name)
        patience[root] = max(patience.get(root, 0), metric.accept_days)
    entries: dict[tuple[str, str], RegisteredSeries] = {}
    for row, metric in rows:
        root = declared_name(row.name)
        entries[row.name, row.params_id] = RegisteredSeries(
            metric=metric,
            root=root,
            series_id=series[row.name, row.params_id],
            retired=row.retired,
            paused=row.paused,
            closed_through=closed[root],
            patience=patience[root],
            weights=weight_range(metric.params),
        )
    return Registry(entries, version)


def declared_name(name: str) -> str:
    """Return the name in metrics.toml: the part of a sub-metric's name before the first `/`."""
    return name.partition("/")[0]
