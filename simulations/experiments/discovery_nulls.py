"""An experiment: how often a search names a string that nobody holds, where no string is
frequent.

Populations of several kinds, none of whose strings is frequent enough to be found (or whose only
frequent one is the fallback). Counts are drawn from their distribution, without devices; each
population is a whole search. A name is wrong where no device holds a string that is it, or begins
with it where its code is cut.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from string import ascii_lowercase

import numpy as np
from scipy.stats import binomtest

from decoder.discovery.discovery import DiscoverOptions, Discovery, FoundString, discover
from decoder.typing import Floats
from rappor_core.metrics.metric import Metric
from simulations.experiments.discovery import discover_metric, drawn_strings, zipf
from simulations.populations.prefix_draws import StringPopulation, draw_buckets

KINDS = (
    "equal shares",
    "Zipf from rank 200 on",
    "the fallback alone",
    "1 to 3 letters, equal",
    "one beginning, equal",
    "2 cohorts a group",
    "2,000 reports",
)
NUM_STRINGS = 2_000
FIRST_RANK = 200  # of Zipf's law without its heads
KEPT_COHORTS = 2  # of each group, where the others have no reports
FEW = 2_000  # reports


@dataclass(frozen=True)
class NullPopulation:
    """A population without frequent strings: its strings, their shares, cohorts without reports,
    and the most reports."""

    kind: str
    strings: tuple[str, ...]
    shares: Floats
    empty_cohorts: tuple[int, ...] = ()
    most_reports: int | None = None

    def holds(self, found: FoundString) -> bool:
        """Whether a device holds the named string."""
        lower = (string.lower() for string in self.strings)
        if found.whole:
            return found.string in lower
        return any(string.startswith(found.string) for string in lower)


@dataclass(frozen=True)
class NullRow:
    """The summary of populations of one kind at one setting.

    named: of `populations`, those in which a wrong string was named; low, high: Clopper and
    Pearson's 95 % interval of its chance.  tested: mean of strings at which a search ended.
    seconds: of the processor, for one population.
    """

    kind: str
    epsilon: float
    reports: int
    populations: int
    named: int
    low: float
    high: float
    tested: float
    seconds: float


def null_population(kind: str, metric: Metric, rng: np.random.Generator) -> NullPopulation:
    """Draw the strings of one population of `KINDS`. Raises ValueError for another name."""
    equal = np.full(NUM_STRINGS, 1 / NUM_STRINGS)
    if kind == "the fallback alone":
        return NullPopulation(kind, (str(metric.fallback),), np.ones(1))
    if kind == "1 to 3 letters, equal":
        sizes = (product(ascii_lowercase, repeat=size) for size in (1, 2, 3))
        letters = ["".join(some) for size in sizes for some in size]
        return NullPopulation(kind, tuple(rng.choice(letters, NUM_STRINGS, False).tolist()), equal)
    names = tuple(drawn_strings(NUM_STRINGS, rng))
    if kind == "equal shares":
        return NullPopulation(kind, names, equal)
    if kind == "Zipf from rank 200 on":
        tail = zipf(NUM_STRINGS + FIRST_RANK - 1)[FIRST_RANK - 1 :]
        return NullPopulation(kind, names, tail / tail.sum())
    if kind == "one beginning, equal":
        return NullPopulation(kind, tuple("www." + name for name in names), equal)
    if kind == "2 cohorts a group":
        cohorts = range(metric.params.num_cohorts)
        size = metric.params.num_cohorts // metric.details.num_groups
        empty = tuple(cohort for cohort in cohorts if cohort % size >= KEPT_COHORTS)
        return NullPopulation(kind, names, equal, empty_cohorts=empty)
    if kind == "2,000 reports":
        return NullPopulation(kind, names, equal, most_reports=FEW)
    raise ValueError(f"kind = {kind!r} is not one of {'; '.join(KINDS)}")


def null_study(
    settings: Sequence[tuple[float, int]],
    populations: int,
    rng: np.random.Generator,
    *,
    small: bool = False,
    kinds: Sequence[str] = (),
    progress: Callable[[int], None] = lambda _: None,
) -> Iterator[NullRow]:
    """Search populations in which no string is frequent, and count the wrong names.

    Args:
        settings: epsilon and number of reports.
        populations: of each kind and setting, each drawn anew.
        rng: for strings and draws.
        small: a metric whose search is fast, in place of the usual one.
        kinds: of the populations; all where none is named. Each has draws of its own.
        progress: called for each population.
    """
    for epsilon, reports in settings:
        metric = discover_metric(epsilon, small=small)
        for kind, own in zip(KINDS, rng.spawn(len(KINDS)), strict=True):
            if kinds and kind not in kinds:
                continue
            population = null_population(kind, metric, own)
            number = min(reports, population.most_reports or reports)
            started = time.process_time()
            draw = _drawn(metric, population, number, own)
            searches = []
            for _ in range(populations):
                searches.append(draw())
                progress(1)
            seconds = (time.process_time() - started) / populations
            yield _row(population, epsilon, number, searches, seconds)


def _drawn(
    metric: Metric, population: NullPopulation, reports: int, rng: np.random.Generator
) -> Callable[[], Discovery]:
    strings = StringPopulation.of(metric, population.strings)
    buckets = strings.bucket_shares(population.shares)
    options = DiscoverOptions(crowd=1)

    def search() -> Discovery:
        counts = draw_buckets(metric, buckets, reports, rng)
        return discover(counts.without(population.empty_cohorts), options)

    return search


def _row(
    population: NullPopulation,
    epsilon: float,
    reports: int,
    searches: Sequence[Discovery],
    seconds: float,
) -> NullRow:
    wrong = sum(any(not population.holds(row) for row in one.found) for one in searches)
    low, high = binomtest(wrong, len(searches)).proportion_ci(0.95)
    tested = float(np.mean([one.num_tested for one in searches]))
    return NullRow(
        population.kind, epsilon, reports, len(searches), wrong, low, high, tested, seconds
    )
