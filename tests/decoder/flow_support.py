"""Made-up matrices of flows, and the counts that their devices would give."""

from __future__ import annotations

from datetime import date

import numpy as np

from decoder.flows.answers import SymbolCounts, symbol_counts
from decoder.flows.space import FlowSpace
from decoder.typing import Floats
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.file_flow import flow_metric as flow_metric_of
from rappor_core.metrics.flow import QUESTIONS, question_of
from rappor_core.metrics.metric import Metric

TABLE = {
    "kind": "flow",
    "description": "Usual night cell and usual work cell of one month, once",
    "owner": "maps@example.org",
    "expires": date(2027, 12, 31),
    "grid": "quadkey",
    "box": [42.0, -72.8, 42.2, -72.5],
    "levels": [11, 13],
    "from": "night 22-6",
    "to": "work 9-17 weekdays",
    "bands_km": [1, 2, 5, 10, 20],
    "period": "month",
    "mode": "once",
    "no_data": "no_data",
}


def flow_metric(epsilon: float = 2.0, cohorts: int = 100, symbols: int = 8) -> Metric:
    """A metric of flows of some 50 cells."""
    keys = {"epsilon": epsilon, "num_symbols": symbols, "num_cohorts": cohorts}
    return flow_metric_of("commute", TABLE | keys)


def city(metric: Metric, rng: np.random.Generator, spread: float = 0.8) -> Floats:
    """(P,) a matrix of gravity with departures of `spread` in the logarithm."""
    flow = metric.details
    cells, sides = len(flow.cells), flow.num_sides
    km = np.array([[flow.metres(o, d) / 1000 for d in range(cells)] for o in range(cells)])
    people, jobs = np.exp(rng.normal(0, 1, (2, cells)))
    logs = -km / 8 + rng.normal(0, spread, (cells, cells))
    flows = people[:, None] * jobs * np.exp(logs)
    flows += np.diag(0.5 * flows.sum(axis=1))
    whole = np.zeros((sides, sides))
    whole[:cells, :cells] = 0.9 * flows / flows.sum()
    whole[cells, :cells] = 0.03 * jobs / jobs.sum()
    whole[:cells, cells] = 0.04 * people / people.sum()
    whole[-1, -1] = 0.03
    return whole.ravel()


def aggregate_of(
    metric: Metric, matrix: Floats, devices: int, rng: np.random.Generator
) -> Aggregate:
    """The counts of devices drawn from a matrix (P,), each with the symbols of its cohort."""
    params = metric.params
    empty = Aggregate(
        metric=metric.name,
        params_id=metric.params_id,
        params=params,
        reports_per_cohort=(0,) * params.num_cohorts,
        bit_counts=((0,) * params.num_bits,) * params.num_cohorts,
        definition=metric.to_dict(),
    )
    layout = symbol_counts(empty, metric.details)
    space = FlowSpace.of(metric.details)
    left = {name: iter(range(len(layout[name].counts))) for name in QUESTIONS}
    sizes = rng.multinomial(devices, np.full(params.num_cohorts, 1 / params.num_cohorts))
    rows = []
    for cohort, size in enumerate(sizes):
        name = question_of(cohort)
        one = layout[name]
        people = rng.multinomial(size, space.sums(name) @ matrix)
        rows.append(noisy(one, next(left[name]), people, rng))
    return Aggregate(
        metric=metric.name,
        params_id=metric.params_id,
        params=params,
        reports_per_cohort=tuple(sizes.tolist()),
        bit_counts=tuple(tuple(row.tolist()) for row in rows),
        definition=metric.to_dict(),
    )


def noisy(
    counts: SymbolCounts, cohort: int, people: Floats, rng: np.random.Generator
) -> np.ndarray:
    """(g,) reports of people by class (C,) in a cohort."""
    size = counts.num_symbols
    symbols = np.arange(len(people)) if counts.symbols is None else counts.symbols[cohort]
    own = np.bincount(symbols, people, size).astype(int)
    chances = np.full((size, size), counts.lied)
    np.fill_diagonal(chances, counts.kept)
    return rng.multinomial(own, chances).sum(axis=0)
